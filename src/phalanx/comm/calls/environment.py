"""What ranks that call a function are started by, and with which environment."""

import os
import sys
from collections.abc import Sequence

from phalanx.comm.launch.job import current_job

#: How variables begin that tell a process which rank of which job it is; and a user's among them.
_OF_A_JOB = ("OMPI_", "PMIX_", "PRTE_", "PMI_", "MV2_COMM_", "PHALANX_RANKS", "PHALANX_TERMINAL")
_OF_A_USER = ("OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_")
#: Parameters that mpiexec sets for ranks, and that `phalanx run` sets for one host.
_OF_MPIEXEC = ("PREFIXES", "num_procs", "initial_wdir", "cpu_type")
_ONE_HOST = "^ofi"


def launcher_command(
    ranks: int, flags: Sequence[str] = (), *, program: Sequence[str] = ()
) -> list[str]:
    """What starts so many ranks that call a function, or that run a `program`.

    It is a process of its own, so that they end as all jobs of `phalanx run` do, whatever the
    process that calls a function does about signals.
    """
    rank = program or [sys.executable, "-m", "phalanx.comm.calls.rank"]
    return [sys.executable, "-m", "phalanx", "run", "-n", str(ranks), *flags, *rank]


def rank_environment() -> dict[str, str]:
    """That of this process, which may be a rank itself, with its modules for the ranks to find."""
    own = dict(os.environ)
    if current_job() is not None:
        own = {name: value for name, value in own.items() if not _is_of_a_job(name, value)}
    return own | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}


def _is_of_a_job(name: str, value: str) -> bool:
    """Whether a variable is about the job that this process is a rank of."""
    if name.startswith(_OF_A_USER):
        return name.endswith(_OF_MPIEXEC) or value == _ONE_HOST
    return name.startswith(_OF_A_JOB)
