"""Code of a user's own is found without being run, and run once."""

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from phalanx.errors import UsageError
from phalanx.user_code import Kind, find, load

SHIP = Kind("ship", made_by="wharf")
CODE = """
from dataclasses import dataclass

@dataclass
class Boat:
    sails: int = 4
"""


@pytest.fixture(autouse=True)
def untouched_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loading code extends the search path and the loaded modules; undo that after each test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("phalanx_user_", "somebody", "neighbour")):
            del sys.modules[name]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file and a package in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code.py").write_text(CODE)
    (tmp_path / "somebody").mkdir()
    (tmp_path / "somebody" / "__init__.py").touch()
    (tmp_path / "somebody" / "ships.py").write_text(CODE)
    return tmp_path


def loaded(name: str) -> object:
    return load(find(name, SHIP))


def test_by_file_or_by_module(here: Path) -> None:
    for name in ("code.py:Boat", "./code.py:Boat", f"{here}/code.py:Boat", "somebody.ships:Boat"):
        boat = loaded(name)
        assert isinstance(boat, type)
        assert boat().sails == 4


def test_classes_pickle(here: Path) -> None:
    boat = loaded("code.py:Boat")
    assert pickle.loads(pickle.dumps(boat)) is boat


def test_a_file_is_run_once(here: Path) -> None:
    assert loaded("code.py:Boat") is loaded("./code.py:Boat")


def test_files_of_one_name_stay_apart(here: Path) -> None:
    (here / "other").mkdir()
    (here / "other" / "code.py").write_text("Boat = 7")
    assert loaded("code.py:Boat") != 7
    assert loaded("other/code.py:Boat") == 7


def test_a_file_may_import_its_neighbours(here: Path) -> None:
    (here / "deep").mkdir()
    (here / "deep" / "neighbour.py").write_text("raft = 3")
    (here / "deep" / "main.py").write_text("from neighbour import raft")
    assert loaded("deep/main.py:raft") == 3


@pytest.mark.parametrize(
    ("name", "file"), [("somebody.ships:Boat", "somebody/ships.py"), ("code.py:Boat", "code.py")]
)
def test_finding_does_not_run_the_code(here: Path, name: str, file: str) -> None:
    (here / file).write_text(f"from pathlib import Path\nPath('ran').touch()\n{CODE}")
    source = find(name, SHIP)
    assert not (here / "ran").exists()
    assert source.module not in sys.modules
    load(source)
    assert (here / "ran").exists()


@pytest.mark.parametrize(
    "name", ["code.py:", ":Boat", "code.py:Boat()", "code:py:Boat", "a..b:Boat", "ships/code:Boat"]
)
def test_names_of_no_known_form_are_refused(name: str) -> None:
    form = r"^ship '.*' is not of the form path/to/file.py:wharf or package.module:wharf$"
    with pytest.raises(UsageError, match=form):
        find(name, SHIP)


def test_what_is_not_there_is_refused(here: Path) -> None:
    with pytest.raises(UsageError, match=r"^ship absent.py:Boat: there is no file .*/absent.py"):
        find("absent.py:Boat", SHIP)
    for module in ("absent", "absent.ships", "somebody.absent", "somebody.ships.deeper"):
        with pytest.raises(UsageError, match=f"^ship {module}:Boat: no module '{module}'"):
            find(f"{module}:Boat", SHIP)
    with pytest.raises(UsageError, match=r"^ship code.py:Raft: Raft is not there in .*/code.py"):
        loaded("code.py:Raft")


def test_a_file_is_refused_before_it_is_run(here: Path) -> None:
    with pytest.raises(UsageError, match=r"^ship code.py:Raft: Raft is not there in .*/code.py$"):
        find("code.py:Raft", SHIP)
    (here / "code.py").write_text("sails = 4\nclass Boat\n    pass\n")
    with pytest.raises(UsageError, match=r"^ship code.py:Boat: .*/code.py, line 2: not Python: "):
        find("code.py:Boat", SHIP)
    (here / "code.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"^ship code.py:Boat: .*/code.py"):
        find("code.py:Boat", SHIP)


@pytest.mark.parametrize(
    "text",
    [
        "from ships import Boat",
        "from ships import raft as Boat",
        "from ships import *",
        "import Boat.deck",
        "if True:\n    Boat = 1",
        "a, (Boat, *b) = 1, (2, 3)",
        "for Boat in (): pass",
        "with open('x') as Boat: pass",
        "if (Boat := 1): pass",
        "def __getattr__(name): return 1",
        "globals()['Bo' + 'at'] = 1",
        "match 1:\n    case Boat: pass",
        "async def Boat(): pass",
    ],
)
def test_a_name_that_may_be_there_is_left_to_the_ranks(here: Path, text: str) -> None:
    (here / "code.py").write_text(text)
    assert find("code.py:Boat", SHIP).attribute == "Boat"


def test_a_file_that_fails_can_be_mended(here: Path) -> None:
    (here / "code.py").write_text("import absent_dependency as Boat")
    with pytest.raises(ModuleNotFoundError, match="absent_dependency"):
        loaded("code.py:Boat")
    (here / "code.py").write_text(CODE)
    assert isinstance(loaded("code.py:Boat"), type)


def test_an_error_in_a_package_above_is_the_users(here: Path) -> None:
    (here / "somebody" / "__init__.py").write_text("import absent_dependency")
    with pytest.raises(ModuleNotFoundError, match="absent_dependency"):
        find("somebody.ships:Boat", SHIP)
