"""A rank of a job that has lost others ends without MPI_Finalize, and otherwise as any process."""

import subprocess
import sys

SCRIPT = """
import atexit, sys
atexit.register(print, "registered before")
from phalanx.comm.recovery.survivors import _leave_without_finalizing
_leave_without_finalizing()
atexit.register(print, "registered after")
sys.exit(7)
"""


def test_what_is_to_be_done_at_the_exit_is_done_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["registered after", "registered before"]
    assert (done.returncode, done.stderr) == (7, "")
