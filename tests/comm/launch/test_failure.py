"""A rank that fails ends the job, whatever else fails on the way; and says so once."""

import io
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from phalanx.comm.launch import claim, failure
from phalanx.comm.launch.claim import first_to_fail
from phalanx.comm.launch.job import Job
from phalanx.errors import UsageError
from tests.commands import PATIENCE, Phalanx, left_behind

PAIR = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}
JOB = Job(size=2, rank=1)


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


@pytest.fixture
def aborts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The codes that jobs were ended with."""
    codes: list[int] = []
    monkeypatch.setattr(failure, "_abort", codes.append)
    for name, value in PAIR.items():
        monkeypatch.setenv(name, value)
    return codes


@pytest.fixture(autouse=True)
def a_claim_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("PMIX_NAMESPACE", str(tmp_path))
    monkeypatch.setattr(claim, "_claim", None)
    yield
    if claim._claim is not None:
        claim._claim.close()


def test_no_descriptor_for_a_socket(
    aborts: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(socket, "socket", refuse)
    assert failure.end_run(UsageError("the seventh seal")) == 2
    assert capsys.readouterr().err == "rank 1 of 2: UsageError: the seventh seal\n"
    assert aborts == [2]


@pytest.mark.parametrize("stream", [None, io.TextIOWrapper(io.BytesIO(), "ascii")])
@pytest.mark.parametrize("error", [UnspeakableError(), UsageError("…")])
def test_neither_words_nor_listeners(
    aborts: list[int],
    monkeypatch: pytest.MonkeyPatch,
    stream: io.TextIOWrapper | None,
    error: Exception,
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    failure.end_run(error)
    assert aborts == [failure.exit_code_of(error)]


def test_an_interruption_while_another_rank_ends_the_job(
    aborts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    assert first_to_fail(JOB)
    monkeypatch.setattr("time.sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        failure.end_run(UsageError("the seventh seal"))
    assert aborts == [2]


def test_the_second_to_fail_is_silent() -> None:
    assert first_to_fail(JOB)
    first = claim._claim
    assert first is not None
    assert not first_to_fail(JOB)
    first.close()
    assert first_to_fail(JOB), "the job before is gone"


def test_a_name_that_another_user_holds_silences_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "_PAUSE", 0)
    monkeypatch.setattr(os, "getuid", lambda: 54321)  # whoever holds it now is not that
    name = f"\0phalanx-failed-54321-{os.environ['PMIX_NAMESPACE']}"
    for listens in (True, False):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
            stranger.bind(name)
            if listens:
                stranger.listen()
            assert first_to_fail(JOB)


OUT_OF_FILES = """
import time
from mpi4py import MPI
from phalanx.comm.launch.failure import end_job_on_uncaught_errors
end_job_on_uncaught_errors()
files = []
while MPI.COMM_WORLD.rank == 1:
    files.append(open("/dev/null"))
time.sleep(600)
"""


def test_a_rank_without_any_file_left_ends_the_job(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "fail.py").write_text(OUT_OF_FILES)
    done = phalanx("run", "-n", 2, sys.executable, "fail.py")
    assert done.returncode == 1
    assert done.stderr.startswith("rank 1 of 2: Traceback")
    assert done.stderr.endswith("Too many open files: '/dev/null'\n")
    assert left_behind(tmp_path) == []


LEAVING = """
import os, sys
from torch import nn

def at_once(input_shape, classes):
    sys.exit()

def on_rank_1(input_shape, classes):
    if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
        raise SystemExit(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))
"""


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (("--model", "net.py:at_once"), "net.py, line 6, has ended"),
        (("--model", "net.py:on_rank_1", "--ranks", 2), "rank 1 of 2: net.py, line 10, has ended"),
    ],
)
def test_an_exit_of_a_users_code_is_no_success(
    phalanx: Phalanx, tmp_path: Path, flags: tuple[object, ...], line: str
) -> None:
    (tmp_path / "net.py").write_text(LEAVING)
    done = phalanx("train", *flags)
    assert done.returncode == 1
    assert done.stderr == f"{line} this process by an exit before the command was done\n"
    assert left_behind(tmp_path) == []


OF_OURS = """
import phalanx
def train():
    raise phalanx.UsageError("no such thing")
{call}
"""


def script(folder: Path, text: str, *flags: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(text)
    return subprocess.run(
        [sys.executable, *flags, "train.py"],
        cwd=folder,
        input="",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_an_error_of_ours_ends_a_script_as_it_ends_a_command(tmp_path: Path) -> None:
    done = script(tmp_path, OF_OURS.format(call="train()"))
    assert (done.returncode, done.stderr) == (2, "UsageError: no such thing (train.py, line 4)\n")


def test_other_errors_of_a_script_and_those_at_a_prompt_are_pythons(tmp_path: Path) -> None:
    done = script(tmp_path, OF_OURS.format(call="phalanx.UsageError; 1 / 0"))
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    done = script(tmp_path, OF_OURS.format(call="train()"), "-i")
    assert done.returncode == 0, "the prompt's own end"
    assert "Traceback" in done.stderr
