"""A data set of a user's own: a function in a file, with options."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from phalanx.data import check, load
from phalanx.data.location import data_path
from phalanx.errors import UsageError

DATA = """
import torch
import phalanx

def points(data_dir, seed, count: int = 4, *, scale: float = 1.0):
    inputs = torch.full((count, 2), float(seed))
    split = phalanx.Split(inputs, torch.arange(count) % 2, scale=scale)
    return phalanx.Dataset(str(data_dir), split, split, ("even", "odd"))

def alone(count: int = 4):
    return points(None, 0, count)

def number(data_dir=None):
    return 3

def demanding(path):
    return points(None, 0)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "sets.py").write_text(DATA)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("phalanx_user_"):
            del sys.modules[name]


def test_a_function_gets_what_it_declares(here: Path) -> None:
    options = {"seed": 7, "count": 6, "scale": 0.5, "normalise": True}
    check("sets.py:points", here, options=options)
    found = load("sets.py:points", data_dir=here, options=options)
    assert found.name == str(here)
    assert len(found.train) == 6
    assert set(found.train.inputs.flatten().tolist()) == {7.0}
    assert found.train.scale == 0.5
    assert load("sets.py:points").name == "None"


def test_checking_does_not_run_it(here: Path) -> None:
    (here / "sets.py").write_text("raise RuntimeError\n" + DATA)
    check("sets.py:points", options={"count": 3})


@pytest.mark.parametrize(
    ("name", "options", "cause"),
    [
        ("sets.py:points", {"number": 3}, "--number is no option of it: it takes count, scale"),
        ("sets.py:points", {"count": "many"}, "--count must be a whole number, not 'many'"),
        ("sets.py:points", {"resize": "8"}, "--resize takes sizes such as"),
        ("sets.py:lines", {}, "^data set sets.py:lines: lines is not there in .*/sets.py$"),
        ("absent.py:points", {}, "^data set absent.py:points: there is no file"),
        ("sets.py:", {}, "is not of the form path/to/file.py:function"),
    ],
)
def test_what_is_wrong_shows_before_it_runs(
    name: str, options: dict[str, object], cause: str
) -> None:
    with pytest.raises(UsageError, match=cause):
        check(name, options=options)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("number", "sets.py must return a phalanx.Dataset, got int"),
        ("demanding", "'path' needs a default; data_dir and seed are what can be passed"),
        ("alone", "has no parameter data_dir: add one, or leave out --data-dir"),
    ],
)
def test_functions_that_give_no_data_set_are_refused(here: Path, name: str, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        load(f"sets.py:{name}", data_dir=here)


def test_it_has_no_folder_among_those_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_DATA", "/data")
    assert data_path("mnist", None) == Path("/data/mnist")
    assert data_path("sets.py:points", None) is None


def test_built_in_sets_have_the_defaults_that_are_told() -> None:
    """What `load` does without an option is what the option's help says."""
    import inspect
    from importlib import import_module

    from phalanx.data import describe

    for entry in describe():
        parameters = inspect.signature(import_module(entry.module).load).parameters
        for option in entry.options:
            found = parameters[option.name].default
            told = option.text.rpartition("[default: ")[2].removesuffix("]")
            assert found in (None, option.default) or told.startswith(f"{found}"), option.name
        assert ("seed" in parameters) == entry.takes_seed
