"""A fork is as good as a process that starts from nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import environment
from tests.zygote import Zygote

PROGRAM = """
import atexit, os, sys, threading
from pathlib import Path

atexit.register(print, "at the exit")
print(Path.cwd(), sys.argv[1:], sys.path[0], __name__, __spec__.name, os.environ.get("PHALANX_X"))
print(Path(sys.argv[0]).name, sys.stdin.read() == "", sys.stdout.isatty(), len(os.environ))
print("to the errors", file=sys.stderr)
threading.Timer(0.1, print, ["from a thread"]).start()
os.environ["LEFT_BEHIND"] = "1"
ENDING
"""


def by_fork(zygote: Zygote, folder: Path, env: dict[str, str]) -> tuple[int, str, str]:
    done = zygote.run("program", ["a b", "--c"], cwd=folder, env=env)
    return done.returncode, done.stdout, done.stderr


def by_process(folder: Path, env: dict[str, str]) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "program", "a b", "--c"]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, input=""
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "sys.exit(3)",
        "sys.exit(-1)",
        "sys.exit('why')",
        "sys.exit(None)",
        "os.kill(os.getpid(), 9)",
    ],
)
def test_a_fork_ends_as_a_process_does(zygote: Zygote, tmp_path: Path, ending: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.replace("ENDING", ending))
    env = environment() | {"PHALANX_X": "y"}
    assert by_fork(zygote, tmp_path, env) == by_process(tmp_path, env)


def test_an_error_of_a_fork_is_shown(zygote: Zygote, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("raise RuntimeError('the seventh seal')")
    code, _, errors = by_fork(zygote, tmp_path, environment())
    assert code == 1
    assert errors.startswith("Traceback (most recent call last):\n")
    assert errors.endswith("\nRuntimeError: the seventh seal\n")


def test_forks_share_nothing_that_is_random(zygote: Zygote, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import random, numpy\nprint(random.random(), numpy.random.random())"
    )
    first, second = (by_fork(zygote, tmp_path, environment())[1].split() for _ in range(2))
    assert first[0] != second[0]
    assert first[1] != second[1]


def test_what_is_read_at_imports_takes_a_process_of_its_own(zygote: Zygote) -> None:
    same = dict(zygote.environment)  # other tests may have had packages imported that set more
    assert zygote.suits(same)
    assert zygote.suits(same | {"PHALANX_RANKS": "2", "SLURM_PROCID": "1"})
    assert not zygote.suits(same | {"OMP_NUM_THREADS": "2"})
    without = dict(same)
    del without["OMP_NUM_THREADS"]
    assert not zygote.suits(without)


def test_a_lost_zygote_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import os\nos.kill(os.getppid(), 9)")
    lost = Zygote(environment())
    with pytest.raises((OSError, ValueError)):
        lost.run("program", [], cwd=tmp_path, env=environment())
    (tmp_path / "program.py").write_text("print('here again')")
    assert lost.run("program", [], cwd=tmp_path, env=environment()).stdout == "here again\n"
    lost.close()
