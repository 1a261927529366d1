"""What a user's code declares is read from its text, without running it."""

import sys
from pathlib import Path
from typing import Any

import pytest

from phalanx.declared import Declared, read_declared
from phalanx.errors import UsageError
from phalanx.options import Option
from phalanx.user_code import Kind, find
from phalanx.wording import argument, flag

CODE = """
raise RuntimeError("this is never run")

SIZE = 3

@dataclass(frozen=True)
class Base(Strategy):
    #: How often,
    #: in steps.
    every: int = 2

@dataclasses.dataclass(frozen=True, kw_only=True)
class Whole(Base):
    share: float = 1
    name: str | None = None
    mode: Literal["fast", "good"] = "fast"
    cut: tuple[int, ...] = (1, 2)
    quoted: "int" = 4
    maybe: typing.Optional[float] = None
    made: int = SIZE + 1
    listed: int = field(default=7)
    inner: int = field(init=False, default=8)
    shared: ClassVar[int] = 9
    needed: int
    strange: Callable[[], None] = print
    worded: "in so many words" = print
    every: int = 5

class Plain:
    every: int = 3

class Net:
    def __init__(self, classes, width=8, *, deep: bool = False, ratio=0.5, shape=(1, 2), **more):
        pass

def function(first, /, classes, width=8, *, name="a", nothing=None):
    pass

def positional(width=1, /, depth=2):
    pass

alias = function
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "code.py").write_text(CODE)
    (tmp_path / "codebase.py").write_text(CODE)
    return tmp_path


def read(name: str, **more: Any) -> Declared:
    return read_declared(find(name, Kind("ship", made_by="wharf")), **more)


def options(name: str, **more: Any) -> dict[str, Option]:
    declared = read(name, **more)
    assert declared.obstacle == ""
    return {option.name: option for option in declared.options}


def test_fields_of_a_dataclass(here: Path) -> None:
    found = options("code.py:Whole")
    kinds = {
        "every": int,
        "share": float,
        "name": str,
        "mode": str,
        "cut": tuple[int, ...],
        "quoted": int,
        "maybe": float,
        "made": int,
        "listed": int,
    }
    assert {name: option.kind for name, option in found.items()} == kinds
    assert (found["every"].default, found["listed"].default) == (5, 7)
    assert found["mode"].choices == ("fast", "good")
    assert found["made"].text == "[default: as the code says]"


def test_a_comment_is_the_help(here: Path) -> None:
    assert options("code.py:Base")["every"].text == "How often, in steps. [default: 2]"


def test_parameters_with_defaults(here: Path) -> None:
    found = options("code.py:function", without=("classes",))
    assert {name: option.kind for name, option in found.items()} == {"width": int, "name": str}
    assert list(options("code.py:function", without=("width",))) == ["name"]
    assert list(options("code.py:positional")) == ["depth"]
    net = options("code.py:Net")
    assert {name: option.kind for name, option in net.items()} == {
        "width": int,
        "deep": bool,
        "ratio": float,
        "shape": tuple[int, ...],
    }


def test_annotations_alone_are_no_fields(here: Path) -> None:
    assert options("code.py:Plain") == {}


def test_a_module_is_read_in_its_file(here: Path) -> None:
    assert list(options("codebase:Base")) == ["every"]
    assert "codebase" not in sys.modules


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("code.py:alias", "code.py has no def and no class of the name alias"),
        ("codebase:absent", "no def and no class of the name absent"),
        ("broken:make", "invalid syntax"),
        ("itertools:chain", "module itertools is no file of Python code"),
    ],
)
def test_what_cannot_be_read_says_why(here: Path, name: str, cause: str) -> None:
    (here / "broken.py").write_text("def make(:")
    found = read(name)
    assert found.options == ()
    assert found.obstacle.startswith("its options cannot be read without running it: ")
    assert cause in found.obstacle


def test_names_that_are_not_declared_are_refused(here: Path) -> None:
    base = read("code.py:Base")
    base.check(["every"], spell=argument)
    with pytest.raises(UsageError) as refused:
        base.check(["often"], spell=flag)
    assert str(refused.value) == "ship code.py:Base: --often is no option of it: it takes every"
    with pytest.raises(UsageError, match="often is no option of it: its options cannot be read"):
        read("code.py:alias").check(["often"], spell=argument)
