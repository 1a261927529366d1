"""`tools/suite.py`: a second chance in the open, which hides nothing that fails every time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: `race(name)` fails the first time that it is called, in whatever process.
RACE = """
import os
from pathlib import Path
import pytest

def race(name):
    seen = Path(name)
    again = seen.exists()
    with seen.open("a") as file:
        print(os.getpid(), file=file)
    assert again, f"{name} came too late"
"""
SOUND = (
    "def test_sound():\n    pass\n@pytest.mark.skip('not today')\ndef test_left_out():\n    pass\n"
)


@pytest.mark.parametrize(("races", "code"), [(0, 0), (3, 0), (4, 1)])
def test_what_passes_alone_is_unsteady(tmp_path: Path, races: int, code: int) -> None:
    tests = [f"def test_race_{i}():\n    race('clock {i}')\n" for i in range(races)]
    (tmp_path / "more").mkdir()
    for name in ("conftest.py", "test_more.py"):
        (tmp_path / "more" / name).write_text("def test_more():\n    pass\n")
    done = run(tmp_path, RACE + SOUND + "".join(tests))
    assert done.returncode == code, done.stdout
    page = last_page(tmp_path)
    assert done.stdout.endswith(page)
    assert f"at most 3 may be): {races}" in page
    for i in range(races):
        assert f"test_it.py::test_race_{i}\n" in page
        assert f"clock {i} came too late" in page
        assert len(set((tmp_path / f"clock {i}").read_text().split())) == 2, "the same process"
    assert "1  not today" in page
    assert "Failed:" not in page


def test_what_fails_twice_is_red_whatever_else_there_is(tmp_path: Path) -> None:
    tests = "def test_race():\n    race('clock')\n@pytest.mark.parametrize('x', ['a b'])\n"
    done = run(tmp_path, RACE + SOUND + tests + "def test_broken(x):\n    assert x is None\n")
    assert done.returncode == 1
    page = last_page(tmp_path)
    assert "at most 3 may be): 1" in page
    assert "-m pytest 'test_it.py::test_broken[a b]'\n" in page
    assert "assert 'a b' is None" in page


def test_many_failures_need_no_second_chance(tmp_path: Path) -> None:
    tests = "@pytest.mark.parametrize('x', range(11))\ndef test_race(x):\n    race(str(x))\n"
    done = run(tmp_path, RACE + tests)
    assert done.returncode == 1
    assert len((tmp_path / "0").read_text().split()) == 1
    assert last_page(tmp_path).count("-m pytest") == 11


def test_a_test_of_ranks_has_a_job_of_its_own(tmp_path: Path) -> None:
    """One that fails once is green and named; one that hangs is red, and the rest has run."""
    tests = """
from mpi4py import MPI
import time

@pytest.mark.ranks(2)
def test_race():
    race(f"clock {MPI.COMM_WORLD.rank}")

@pytest.mark.ranks(2)
def test_hanging():
    MPI.COMM_WORLD.Barrier()
    time.sleep(3600 * MPI.COMM_WORLD.rank)

@pytest.mark.ranks(2)
def test_after_it():
    assert MPI.COMM_WORLD.allreduce(1) == 2
"""
    done = run(
        tmp_path, RACE + tests, PYTEST_PLUGINS="tests.ranks", PYTEST_ADDOPTS="--ranks-stall=5"
    )
    assert done.returncode == 1, done.stdout
    page = last_page(tmp_path)
    assert "at most 3 may be): 1" in page
    assert "test_it.py::test_race[2 ranks]" in page
    assert page.count("-m pytest") == 1
    assert "-m pytest 'test_it.py::test_hanging[2 ranks]'" in page


@pytest.mark.parametrize(("text", "code"), [("", 5), ("import nothing_of_that_name\n", 2)])
def test_nothing_run_is_no_success(tmp_path: Path, text: str, code: int) -> None:
    assert run(tmp_path, text).returncode == code


def run(folder: Path, tests: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(tests)
    command = [sys.executable, "-m", "tools.suite", "toys", "-p", "no:hypothesispytest"]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def last_page(folder: Path) -> str:
    return (folder / "build" / "tests" / "toys.txt").read_text()
