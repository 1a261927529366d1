"""The plugin that runs tests inside MPI jobs, tried on a small project of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = """
import os
import time

import pytest
from mpi4py import MPI

world = MPI.COMM_WORLD


def wait_for_the_others():
    # A barrier that keeps no core from whoever else runs.
    barrier = world.Ibarrier()
    while not barrier.Test():
        time.sleep(0.01)


@pytest.mark.ranks(2)
def test_passing(ranks, tmp_path):
    assert world.size == ranks
    assert len(set(world.allgather(str(tmp_path)))) == 2


@pytest.mark.ranks(2)
@pytest.mark.parametrize("word", ["two words", "a::b"])
def test_failing_on_one_rank(word, shared_path):
    assert len(set(world.allgather(str(shared_path)))) == 1
    print(f"spoken by rank {world.rank}")
    assert world.rank == 0, word


@pytest.mark.ranks(2)
def test_skipped():
    pytest.skip("for a reason")


@pytest.mark.ranks(2)
@pytest.mark.xfail(reason="known")
def test_expected_to_fail():
    assert world.rank == 2


@pytest.mark.ranks(2)
def test_failing_while_the_other_waits():
    if world.rank == 1:
        raise ArithmeticError("went wrong")
    wait_for_the_others()


@pytest.mark.ranks(2)
def test_exiting():
    if world.rank == 1:
        os.write(2, b"last words")
        os._exit(7)
    wait_for_the_others()


@pytest.mark.ranks(2)
def test_passing_at_last():
    assert world.allreduce(1) == 2


@pytest.mark.ranks(3)
def test_stalling():
    if world.rank == 1:
        time.sleep(3600)
    wait_for_the_others()


@pytest.mark.ranks(3)
def test_passing_after_it():
    assert world.allreduce(1) == 3


@pytest.mark.ranks(1)
def test_alone():
    assert world.size == 1


def test_outside():
    assert world.size == 1


def test_without_mark(comm):
    raise AssertionError
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> pytest.RunResult:
    folder = tmp_path_factory.mktemp("a project")
    (folder / "test_it.py").write_text(PROJECT)
    return run(folder, "--ranks-stall=10", "--ranks-patience=5", "-rA")


def run(folder: Path, *options: str) -> pytest.RunResult:
    command = [sys.executable, "-m", "pytest", "-p", "tests.ranks", *options, "test_it.py"]
    started = time.monotonic()
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    lines, errors = done.stdout.splitlines(), done.stderr.splitlines()
    return pytest.RunResult(done.returncode, lines, errors, time.monotonic() - started)


def environment() -> dict[str, str]:
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def failure(result: pytest.RunResult, test: str) -> str:
    """What was printed about a failed test."""
    lines = result.outlines
    start = next(i for i, line in enumerate(lines) if line.startswith("__") and f" {test}" in line)
    after = (i for i, line in enumerate(lines) if i > start and line.startswith(("__", "==")))
    return "\n".join(lines[start : next(after)])


def test_outcomes(result: pytest.RunResult) -> None:
    result.assert_outcomes(passed=5, failed=5, skipped=1, xfailed=1, errors=1)
    text = result.stdout.str()
    for name in (
        "test_passing[2 ranks]",
        "test_passing_at_last[2 ranks]",
        "test_passing_after_it[3 ranks]",
        "test_alone[1 rank]",
    ):
        assert f"PASSED test_it.py::{name}" in text
    result.stdout.fnmatch_lines(["SKIPPED * test_it.py:*: for a reason"])
    assert "@pytest.mark.ranks" in failure(result, "ERROR at setup of test_without_mark")


def test_each_failing_rank_is_reported(result: pytest.RunResult) -> None:
    text = failure(result, "test_failing_on_one_rank")
    assert "rank 1:\n" in text
    assert "rank 0:\n" not in text
    assert "two words" in text
    assert "- rank 1: Captured stdout call -" in text
    assert "spoken by rank 1" in text


def test_a_rank_left_alone_is_reported(result: pytest.RunResult) -> None:
    text = failure(result, "test_failing_while_the_other_waits")
    assert "ArithmeticError: went wrong" in text
    assert "rank 1 failed and waited for the others in vain" in text
    assert "rank 0 was in test_it.py::test_failing_while_the_other_waits[2 ranks]" in text
    assert "rank 1 was done with it" in text
    assert "in test_failing_while_the_other_waits\n" in text, "rank 0's stack"


def test_a_rank_that_exits_is_reported(result: pytest.RunResult) -> None:
    text = failure(result, "test_exiting")
    assert "the job ended with exit code" in text
    assert "last words" in text


def test_a_stall_is_reported(result: pytest.RunResult) -> None:
    text = failure(result, "test_stalling")
    assert "no progress on any rank for 10 s" in text
    for rank in range(3):
        assert f"rank {rank} was in test_it.py::test_stalling[3 ranks]" in text
    assert text.count("in test_stalling\n") == 3, "a stack of each rank"


def test_a_job_that_cannot_start_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import os, pathlib, pytest\n"
        "if 'PHALANX_RANKS' in os.environ:\n"
        "    pathlib.Path(f'started-{os.getpid()}').touch()\n"
        "    raise AssertionError('not here')\n"
        "@pytest.mark.ranks(1)\n"
        "@pytest.mark.parametrize('x', range(5))\n"
        "def test_it(x): pass\n"
    )
    result = run(tmp_path)
    result.assert_outcomes(failed=5)
    assert "not here" in result.stdout.str()
    assert len(list(tmp_path.glob("started-*"))) == 1


def test_a_job_that_is_lost_early_goes_on_before_anybody_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pathlib, pytest, time\n"
        "@pytest.mark.parametrize('x', range(600))\n"
        "def test_outside(x):\n"
        "    time.sleep(0.2 * (not pathlib.Path('second').exists()))\n"
        "    assert x < 599 or pathlib.Path('second').exists()\n"
        "@pytest.mark.ranks(2)\n"
        "def test_first():\n"
        "    from mpi4py import MPI\n"
        "    assert MPI.COMM_WORLD.rank\n"
        "    MPI.COMM_WORLD.Barrier()\n"
        "@pytest.mark.ranks(2)\n"
        "def test_second():\n"
        "    pathlib.Path('second').touch()\n"
    )
    result = run(tmp_path, "--ranks-patience=1", "-rA")
    result.assert_outcomes(passed=601, failed=1)
    assert "in test_first\n" in failure(result, "test_first"), "the stack of who waited"


def test_a_killed_pytest_leaves_no_process_behind(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import os, pathlib, pytest, time\n"
        "@pytest.mark.ranks(2)\n"
        "def test_it():\n"
        "    pathlib.Path(f'pid-{os.getpid()}').touch()\n"
        "    time.sleep(3600)\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.ranks", "test_it.py"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**environment(), "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
    ) as process:
        wait_until(lambda: len(list(tmp_path.glob("pid-*"))) == 2)
        process.kill()
    ranks = [int(path.name.removeprefix("pid-")) for path in tmp_path.glob("pid-*")]
    wait_until(lambda: not any(Path(f"/proc/{rank}").exists() for rank in ranks))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
