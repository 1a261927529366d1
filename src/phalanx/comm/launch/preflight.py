"""What mpiexec needs of this process before it can start anything, looked at before it is asked.

mpiexec itself says such things in boxes about its own insides, and ends with codes of its own.
"""

import os
import pwd
import resource
import tempfile
from pathlib import Path

from phalanx.errors import LaunchError, UsageError

#: Ranks that share a core wait for each other; to try something out, so many are fine anywhere.
_A_CORE, _ANYWHERE = 16, 64
#: Descriptors that mpiexec needs: for itself, and for each rank that it starts.
_OF_ITSELF, _OF_A_RANK = 64, 8


def check_ranks(ranks: int, *, cores: int) -> None:
    """Refuse numbers that cannot be meant: memory would run out before the last rank is there."""
    if ranks < 1:
        raise UsageError(f"the number of ranks must be at least 1, not {ranks}")
    most = max(_ANYWHERE, _A_CORE * cores)
    if ranks > most:
        raise UsageError(
            f"{ranks} ranks for {cores} core{'s' * (cores > 1)}: at most {most} are started here. "
            "Take as many ranks as cores; for more hosts `phalanx run -H HOST:SLOTS,…` or the "
            "batch system's own launcher"
        )


def check_folder() -> None:
    """Refuse to work in a folder that is gone: nothing that is named from there can be found."""
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError(
            f"the folder that this was called in is gone ({error.strerror}): go to one that exists"
        ) from error


def home_folder() -> str:
    """Where Open MPI looks for a user's settings, which it will not do without."""
    try:
        return os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a container's user that has no name
        return tempfile.gettempdir()


def check_temporary_folder() -> None:
    """Refuse a folder for temporary files that Open MPI could not use for its own."""
    named = next((one for one in ("TMPDIR", "TEMP", "TMP") if os.environ.get(one)), None)
    folder = Path(os.environ[named] if named else "/tmp")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="phalanx-", dir=folder):
            pass
    except OSError as error:
        raise LaunchError(
            f"MPI keeps its files in {folder}, which cannot be written to ({error.strerror}): "
            "name another folder with TMPDIR"
        ) from error


def allow_descriptors(ranks: int) -> None:
    """Raise the number of files that may be open to what mpiexec needs, or refuse."""
    needed = _OF_ITSELF + _OF_A_RANK * ranks
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise LaunchError(
            f"to start {ranks} ranks MPI opens some {needed} files at a time, and {hard} are "
            f"allowed here (`ulimit -Hn`): raise that to {needed}, or start fewer ranks"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
