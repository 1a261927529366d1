"""A command as a child process: in a session of its own, and ended with this process."""

import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence

from phalanx.comm.launch.asking import ASKING
from phalanx.comm.launch.process import die_with_parent


def start_child(
    argv: Sequence[str],
    *,
    stdout: int | None = None,
    stderr: int | None = None,
    env: Mapping[str, str] | None = None,
    deaf: Collection[signal.Signals] = (),
) -> subprocess.Popen[bytes]:
    """Start a command without input.

    In its own session a Ctrl-C reaches this process alone, which then ends the child in order; and
    a `kill -9` of this process does not leave the child running. It is ended by SIGINT where it is
    `deaf` to SIGTERM.

    Signals wait until the child is there: Python drops the exception of one that arrives among the
    things it does after a fork, and the Ctrl-C would be lost.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ASKING)

    def prepare() -> None:
        die_with_parent(signal.SIGINT if signal.SIGTERM in deaf else signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_SETMASK, {*before, *deaf})  # a child inherits the mask

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
