"""A command as a child process: in a session of its own, and ended with this process."""

import signal
import subprocess
from collections.abc import Mapping, Sequence

from phalanx.comm.launch.process import die_with_parent

#: What asks a process to end, and so may come at any moment.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def start_child(
    argv: Sequence[str],
    *,
    stdout: int | None = None,
    stderr: int | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command without input.

    In its own session a Ctrl-C reaches this process alone, which then ends the child in order; and
    a `kill -9` of this process does not leave the child running.

    Signals wait until the child is there: Python drops the exception of one that arrives among the
    things it does after a fork, and the Ctrl-C would be lost.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)

    def prepare() -> None:
        die_with_parent(signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # a child inherits the mask

    try:
        return subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=prepare,  # noqa: PLW1509 (it takes no lock that a thread could hold)
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
