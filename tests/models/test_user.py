import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from phalanx.errors import UsageError
from phalanx.models import build, check

SHAPE = (2, 3)

MODEL = """
from dataclasses import dataclass
from torch import nn

@dataclass
class Width:
    value: int = 4

def net(input_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(input_shape[0] * input_shape[1], classes))

def bare():
    return nn.Identity()

def counts(*, classes, width=Width()):
    return nn.Linear(width.value, classes)

def everything(**given):
    model = nn.Identity()
    model.given = given
    return model

def demanding(classes, depth):
    return nn.Identity()

def positional(classes, /):
    return nn.Identity()

def number(classes):
    return classes

def failing(classes):
    raise ZeroDivisionError("the user's own")

class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.layer = nn.Linear(6, classes)

limit = 3
finished = Net(5)
"""


@pytest.fixture(autouse=True)
def untouched_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loading a model extends the search path and the loaded modules; undo that after each test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("phalanx_user_", "somebody")):
            del sys.modules[name]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a model file in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def made(name: str) -> nn.Module:
    check(name, {})
    return build(name, input_shape=SHAPE, classes=5)


def test_a_function_in_a_file(here: Path) -> None:
    for name in ("model.py:net", "./model.py:net", f"{here}/model.py:net"):
        assert made(name)(torch.zeros(1, *SHAPE)).shape == (1, 5)


def test_a_function_gets_what_it_declares(here: Path) -> None:
    assert isinstance(made("model.py:bare"), nn.Identity)
    counts = made("model.py:counts")
    assert isinstance(counts, nn.Linear)
    assert (counts.in_features, counts.out_features) == (4, 5)
    assert made("model.py:everything").given == {"input_shape": SHAPE, "classes": 5}


def test_a_class_is_a_function_too_and_pickles(here: Path) -> None:
    model = made("model.py:Net")
    assert type(pickle.loads(pickle.dumps(model))) is type(model)


@pytest.fixture
def package(here: Path) -> Path:
    folder = here / "somebody"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "nets.py").write_text(MODEL)
    return folder


def test_a_function_in_a_package_of_the_current_folder(package: Path) -> None:
    assert made("somebody.nets:net")(torch.zeros(1, *SHAPE)).shape == (1, 5)


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        ("absent", r"absent is not there in .*model.py"),
        ("limit", r"limit is not a function in .*model.py"),
        ("number", r"model.py must return a torch.nn.Module, got int"),
        ("finished", r"model.py is a model already, .* name the function or class that makes it"),
        ("demanding", r"'depth' needs a default; input_shape and classes"),
        ("positional", r"'classes' needs a default; .* by keyword"),
    ],
)
def test_functions_that_make_no_model_are_refused(here: Path, function: str, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        made(f"model.py:{function}")


def test_an_error_in_the_function_is_the_users(here: Path) -> None:
    with pytest.raises(ZeroDivisionError, match="the user's own") as caught:
        made("model.py:failing")
    assert caught.traceback[-1].path == here / "model.py"


def test_parameters_with_defaults_are_options(here: Path) -> None:
    (here / "wide.py").write_text(
        "from torch import nn\n"
        "def net(classes, width: int = 4, *, bias=True):\n"
        "    return nn.Linear(width, classes, bias=bias)\n"
    )
    options: dict[str, object] = {"width": 7, "bias": False, "init": "zeros"}
    check("wide.py:net", options)
    model = build("wide.py:net", input_shape=SHAPE, classes=5, options=options)
    assert isinstance(model, nn.Linear)
    assert model.in_features == 7
    assert model.bias is None
    assert not model.weight.any()
    with pytest.raises(UsageError, match="width must be a whole number, not 'x'"):
        check("wide.py:net", {"width": "x"})
    cause = r"^model wide.py:net: hidden is no option of it: it takes width, bias$"
    with pytest.raises(UsageError, match=cause):
        check("wide.py:net", {"hidden": (4,)})


def test_names_of_no_file_or_module_are_refused(here: Path) -> None:
    with pytest.raises(
        UsageError, match=r"^model 'model.py:' is not of the form .*:function or pac"
    ):
        check("model.py:", {})
    with pytest.raises(UsageError, match=r"^model absent.py:net: there is no file .*/absent.py"):
        check("absent.py:net", {})
    with pytest.raises(UsageError, match=r"^model absent:net: no module 'absent'"):
        check("absent:net", {})
