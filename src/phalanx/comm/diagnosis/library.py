"""Which MPI mpi4py has found. `python -m phalanx.comm.diagnosis.library` prints it as JSON.

To be asked in a process of its own: loading a library that does not fit can end the process.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

_MAPS = Path("/proc/self/maps")


@dataclass(frozen=True)
class Library:
    """An MPI library as it is loaded."""

    #: Its own words, such as `Open MPI v5.0.8, package: …`, without an end of line.
    version: str
    #: Of the standard, such as `3.1`.
    standard: str
    #: Where it was loaded from; empty where the system does not tell.
    path: str


def library() -> Library:
    """The MPI that mpi4py loads; MPI itself is not started."""
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI

    version = MPI.Get_library_version().strip("\0\n ")
    return Library(version.splitlines()[0], ".".join(map(str, MPI.Get_version())), _loaded_from())


def _loaded_from() -> str:
    try:
        lines = _MAPS.read_text(errors="surrogateescape").splitlines()
    except OSError:  # no Linux
        return ""
    files = [Path(line.split(maxsplit=5)[5]) for line in lines if line.count("/")]
    found = [file for file in files if file.name.startswith(("libmpi.so", "libmpi_abi.so"))]
    return str(found[0]) if found else ""


if __name__ == "__main__":
    print(json.dumps(asdict(library())))
