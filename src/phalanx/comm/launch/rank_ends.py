"""Whether mpiexec failed because a rank did, or could start none: its exit code does not tell."""

import re
import socket
from collections import deque
from collections.abc import Iterable, Iterator
from typing import final

from phalanx.errors import LaunchError

#: What Open MPI says of a rank that has ended a job.
_OF_A_RANK = re.compile(
    r"MPI_ABORT was invoked|help about: mpi-abort|exited on signal|exited with non-zero status"
    r"|non-zero exit code|has exited due to process rank|process rank \d+"
)
#: What prterun ends with when it starts no ranks: errors of its own, and what ssh ends with. Others
#: are a rank's, of which it does not always say anything.
_STARTS_NONE = (213, 230, 255)
#: So many last lines are kept; a job that ends has little more to say.
_LINES = 400


@final
class RankEnds:
    """Reads along what mpiexec writes to its standard error."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=_LINES)
        #: Whether all that it has written was read.
        self.are_known = False

    def watch(self, source: Iterable[bytes]) -> Iterator[bytes]:
        """The same lines, as they come."""
        for line in source:
            self._lines.append(line)
            yield line

    def check(self, code: int, *, hosts: str | None) -> None:
        """Raise if Open MPI's mpiexec ended with this code, and not because a rank had ended."""
        text = " ".join(b"".join(self._lines).decode(errors="replace").split())
        if code in _STARTS_NONE and not _OF_A_RANK.search(text):
            why = "" if hosts is None else _about(hosts)
            raise LaunchError(f"mpiexec could not start the ranks, and ended with code {code}{why}")


def _about(hosts: str) -> str:
    """What may be wrong with some hosts."""
    names = [entry.partition(":")[0].strip() for entry in hosts.split(",")]
    unknown = [name for name in names if not _is_known(name)]
    if unknown:
        return f"; nobody here knows the host {', '.join(unknown)} (--hosts)"
    return f"; can you log in to {', '.join(names)} by ssh without a password?"


def _is_known(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True
