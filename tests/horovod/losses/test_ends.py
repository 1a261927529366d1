"""Jobs that may lose ranks, and that fail: they end, and say so."""

import sys
from pathlib import Path

import pytest

from phalanx.comm.recovery.survivors import Survivors
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import RankLostError
from phalanx.horovod.api.new_start import NewStarts
from phalanx.horovod.engine.settings import MIN_NP, RESET_LIMIT
from tests.commands import Phalanx

LOST_EARLY = """
import os
if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
    os.kill(os.getpid(), 9)
import horovod.torch as hvd
hvd.init()
"""
LOST_LATE = """
import os
import horovod.torch as hvd
hvd.init()
hvd.barrier()
if hvd.rank() == 0:
    os.kill(os.getpid(), 9)
"""
NOT_ELASTIC = """
import os
import horovod.torch as hvd
hvd.init()
hvd.barrier()
if hvd.rank() == 0:
    os.kill(os.getpid(), 9)
hvd.barrier()
"""


@pytest.mark.parametrize(
    ("script", "line"),
    [
        (LOST_EARLY, "1 rank ended before the job began"),
        (LOST_LATE, "1 of the last 2 ranks did not come to their end"),
        (
            NOT_ELASTIC,
            "rank 1 of 2: RanksLostInternalError: a rank is lost, and with it the operation that "
            "it had a part in (script.py, line 8)",
        ),
    ],
    ids=["early", "late", "not elastic"],
)
def test_lost_where_nobody_goes_on(
    phalanx: Phalanx, tmp_path: Path, script: str, line: str
) -> None:
    (tmp_path / "script.py").write_text(script)
    flags = ("--horovod", "-np", 2, "--min-np", 1)
    done = phalanx("run", *flags, sys.executable, "script.py")
    assert (done.returncode, done.stderr) == (1, line + "\n")


def test_no_more_losses_than_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MIN_NP, "1")
    monkeypatch.setenv(RESET_LIMIT, "2")
    starts = NewStarts()
    left = Survivors(SingleCommunicator(), [1])
    starts._note(Survivors(left.comm, []))
    starts._note(left)
    starts._note(left)
    with pytest.raises(RankLostError, match="rank 1 is lost: that is more often than --reset-li"):
        starts._note(left)
