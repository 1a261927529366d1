"""A child process: no signal is lost while it starts, and it starts with none held back."""

import os
import signal
import subprocess
import sys

import pytest

from phalanx.comm.launch.child import start_child

#: Interrupts itself at a point where Python drops what a signal's handler raises.
INTERRUPTED_IN_THE_FORK = """
import os, signal
from phalanx.comm.launch.child import start_child

os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    start_child(["true"])
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_during_the_start_is_not_lost() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IN_THE_FORK], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_the_child_holds_no_signal_back(capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert start_child(["grep", "SigBlk", "/proc/self/status"]).wait() == 0
    assert int(capfd.readouterr().out.split()[1], 16) == 0
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_the_child_leads_a_session_of_its_own() -> None:
    child = start_child(["sleep", "60"])
    try:
        assert os.getsid(child.pid) == child.pid
    finally:
        child.kill()
        child.wait()


def test_a_command_that_does_not_exist_is_said_and_leaves_the_mask() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with pytest.raises(FileNotFoundError):
        start_child(["/no-such-command"])
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
