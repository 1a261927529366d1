"""Memory, shared memory, the folder for temporary files, and how many files may be open."""

import os
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

from phalanx.comm.free_memory import free_memory
from phalanx.comm.launch.preflight import allow_descriptors, check_temporary_folder
from phalanx.comm.launch.process import available_cores
from phalanx.errors import LaunchError
from phalanx.observe.doctor.finding import Finding, Group, broken, fine, odd
from phalanx.observe.doctor.scope import Scope
from phalanx.wording import byte_size

#: What torch and MPI take before there is a model, for a rank.
_OF_A_RANK = 300 << 20
#: Where MPI keeps what the ranks of a host send each other, and how much of it.
_SHARED, _SEGMENT_OF_A_RANK = Path("/dev/shm"), 16 << 20
#: Names that MPI gives to sockets there, and what a path to one may have.
_LONGEST_FOLDER = 60


def free(scope: Scope) -> Iterator[Finding]:
    """What this host, or the job that this process is in, has left."""
    left, needed = free_memory(), scope.count * _OF_A_RANK
    said = f"{byte_size(left)} free"
    if left < needed:
        why = f"{said}: {scope.count} ranks take {byte_size(needed)} before there is a model"
        yield odd("memory", why, "take fewer ranks, or ask for more memory", bytes=left)
    else:
        yield fine("memory", said, bytes=left)


def shared(scope: Scope) -> Iterator[Finding]:
    """The folder that MPI's messages between ranks of a host go through."""
    name, needed = "shared memory", scope.count * _SEGMENT_OF_A_RANK
    advice = "MPI sends through files in TMPDIR, or over sockets then, which is slower; "
    try:
        size = os.statvfs(_SHARED)
        with tempfile.TemporaryFile(dir=_SHARED):
            pass
    except OSError as error:
        yield odd(name, f"{_SHARED} cannot be used: {error.strerror}", f"{advice}mount one there")
        return
    whole, left = size.f_frsize * size.f_blocks, size.f_frsize * size.f_bavail
    said = f"{byte_size(left)} of {byte_size(whole)} free in {_SHARED}"
    facts = {"bytes": whole, "free": left}
    if left < needed:
        more = f"{advice}give a container more (`docker run --shm-size`), or remove old files there"
        yield odd(
            name, f"{said}: MPI takes {byte_size(needed)} for {scope.count} ranks", more, **facts
        )
    else:
        yield fine(name, said, **facts)


def temporary_folder(_scope: Scope) -> Iterator[Finding]:
    """Where MPI keeps the files of a job."""
    name = "temporary files"
    try:
        check_temporary_folder()
    except LaunchError as error:
        said, _, advice = str(error).rpartition(": ")
        yield broken(name, said, advice)
        return
    folder = Path(os.environ.get("TMPDIR") or tempfile.gettempdir())
    left = os.statvfs(folder)
    said = f"{byte_size(left.f_frsize * left.f_bavail)} free in {folder}"
    if len(os.fsencode(folder)) > _LONGEST_FOLDER:
        why = f"{said}: a long path, to which MPI adds, and paths of sockets have 107 bytes at most"
        yield odd(name, why, "name a shorter one with TMPDIR if MPI does not start")
    else:
        yield fine(name, said, folder=str(folder))


def descriptors(scope: Scope) -> Iterator[Finding]:
    """How many files may be open at a time."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    said = f"{_limit(soft)} may be open, {_limit(hard)} if asked for"
    for ranks in (scope.count, available_cores()):
        try:
            allow_descriptors(ranks)
        except LaunchError as error:
            why, _, advice = str(error).rpartition(": ")
            yield broken("open files", why, advice, soft=soft, hard=hard)
            return
    yield fine("open files", said, soft=soft, hard=hard)


def _limit(number: int) -> str:
    return "any number" if number == resource.RLIM_INFINITY else f"{number:,}"


GROUP = Group("Memory and files", (free, shared, temporary_folder, descriptors))
