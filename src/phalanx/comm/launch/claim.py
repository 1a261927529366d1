"""Which rank of a host has failed first: ranks often fail together, for the same reason.

The name of an abstract socket is a lock that needs no file, and that the kernel gives back when the
job is gone. Any user of the machine can take any such name, so whoever holds this one is asked who
they are.
"""

import os
import socket
import struct
import time

from phalanx.comm.launch.job import Job

_claim: socket.socket | None = None
#: How often, and with how many seconds between, a holder is asked who does not answer.
_TRIES, _PAUSE = 10, 0.02


def first_to_fail(job: Job | None) -> bool:
    """Whether no other rank on this host has failed before; yes, if that cannot be found out."""
    global _claim
    if job is None or job.size == 1:
        return True
    name = f"\0phalanx-failed-{os.getuid()}-{_job_name()}"
    try:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError:  # no descriptor left
        return True
    try:
        claim.bind(name)
        claim.listen()
    except OSError:
        claim.close()
        return not _held_by_us(name)
    _claim = claim
    return True


def _job_name() -> str:
    return os.environ.get("PMIX_NAMESPACE") or f"{os.getpgid(os.getppid())}"


def _held_by_us(name: str) -> bool:
    """Whether the socket of this name is of a process of this user."""
    for _ in range(_TRIES):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            try:
                asking.connect(name)
            except OSError:  # it has the name and does not listen yet
                time.sleep(_PAUSE)
                continue
            form = struct.Struct("3i")  # of the process: its number, its user and its group
            answer = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, form.size)
            return bool(form.unpack(answer)[1] == os.getuid())
    return False
