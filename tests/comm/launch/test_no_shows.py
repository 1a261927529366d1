"""Ranks that are gone before the others have met them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from phalanx.comm.launch import no_shows
from phalanx.comm.launch.no_shows import NoShows
from phalanx.comm.launch.roll_call import RollCall
from phalanx.comm.launch.way_back import Notes
from tests.commands import PATIENCE

#: Stands for mpiexec, with one rank that stays.
MPIEXEC = """
import os, subprocess
with subprocess.Popen(["sleep", "100"], env={**os.environ, "OMPI_COMM_WORLD_RANK": "0"}):
    print("started", flush=True)
"""


@pytest.fixture
def mpiexec(monkeypatch: pytest.MonkeyPatch) -> Iterator["subprocess.Popen[bytes]"]:
    monkeypatch.setattr(no_shows, "_INTERVAL", 0.05)
    process = subprocess.Popen(
        [sys.executable, "-c", MPIEXEC],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize(("ranks", "report"), [(2, "here:0"), (1, "here:0"), (2, "begun:2")])
def test_only_who_is_waited_for_and_gone(
    mpiexec: "subprocess.Popen[bytes]",
    ranks: int,
    report: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    call = RollCall(listens=True)
    list(call.watch([f"\x1ephalanx:{report}\x1e\n".encode()]))
    watch = NoShows(mpiexec, ranks=ranks, roll_call=call, notes=Notes())
    watch.start()
    if (ranks, report) == (2, "here:0"):
        mpiexec.wait(PATIENCE)
        assert watch.code() == 1
        assert capsys.readouterr().err == "1 rank ended before the job began\n"
    else:
        with pytest.raises(subprocess.TimeoutExpired):
            mpiexec.wait(1)
        assert watch.code() == 0


@pytest.mark.parametrize("case", ["stopped", "at work", "met"])
def test_only_who_stands_still_before_all_have_met(
    mpiexec: "subprocess.Popen[bytes]", case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    call = RollCall(listens=False)
    notes: Any = {"met": "yes" if case == "met" else ""}
    (rank,) = (one.number for one in no_shows._children_of(mpiexec.pid))
    if case != "at work":
        os.kill(rank, signal.SIGSTOP)
    watch = NoShows(mpiexec, ranks=1, roll_call=call, notes=notes, stall_after=0.3)
    watch.start()
    if case == "stopped":
        mpiexec.wait(PATIENCE)
        assert watch.code() == 1
        said = capsys.readouterr().err
        assert said.startswith(f"rank 0 (process {rank}) is stopped, for 0.3 s now, and the others")
    else:
        with pytest.raises(subprocess.TimeoutExpired):
            mpiexec.wait(1)
        assert watch.code() == 0
