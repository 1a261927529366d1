"""Open MPI's files in shared memory, through which the ranks of a host send each other messages.

Open MPI removes them when a job ends, unless mpiexec is killed: then they stay until somebody
starts the machine again, 16 MB for each rank. What has no name any more goes with the last process
that has it mapped. Ranks that are spawned later have no use for it: they send over TCP.
"""

from contextlib import suppress
from pathlib import Path

_MAPS = Path("/proc/self/maps")
_PREFIXES = ("sm_segment.", "vader_segment.")  # of Open MPI 5, and of 4


def unlink_segments() -> None:
    """Take their names from the segments that this process has mapped, where all ranks have."""
    with suppress(OSError):  # no Linux; or somebody else was faster
        paths = [Path(line.split(maxsplit=5)[5]) for line in _mapped() if line.count("/")]
        for path in set(paths):
            if path.name.startswith(_PREFIXES):
                path.unlink(missing_ok=True)


def _mapped() -> list[str]:
    return _MAPS.read_text(errors="surrogateescape").splitlines()
