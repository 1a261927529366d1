"""New processes in the place of ranks that are lost, started by those that are left.

A new rank runs the same command. MPI_Comm_spawn starts it in a world of its own, with the
environment that mpiexec had: what it needs besides is handed over on its command line.
"""

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from phalanx.comm import enter_world
from phalanx.comm.launch.job import take_place
from phalanx.comm.recovery.survivors import everyone

if TYPE_CHECKING:
    from phalanx.comm.mpi import MPICommunicator

#: Set in a process that takes the place of a rank: how many are there before the new ones.
BEFORE = "PHALANX_RANKS_BEFORE"
#: What a new rank does first: its number is among the new ones, and its job is that of all.
_BEGIN = (
    "import json, os, sys; os.environ.update(json.loads(sys.argv.pop(1))); "
    "number = int(os.environ['OMPI_COMM_WORLD_RANK']) + int(os.environ['PHALANX_RANKS_BEFORE']); "
    "os.environ['OMPI_COMM_WORLD_RANK'] = str(number); "
    "os.environ['OMPI_COMM_WORLD_SIZE'] = os.environ['PHALANX_RANKS']; "
    "from phalanx.__main__ import main; main()"
)
_HANDED_OVER = ("PHALANX_", "OMPI_MCA_", "PYTHON", "OMP_", "MALLOC_")


def replace(count: int, arguments: Sequence[str]) -> bool:
    """Collective over the ranks that are left. Have so many new ones run `phalanx ARGUMENTS`.

    If that works, all together are `phalanx.comm.world()` from now on, the new ones last.
    """
    left = everyone()
    together = left.with_new(
        count, [sys.executable, "-c", _BEGIN, _handed_over(left, count), *arguments]
    )
    if not left.agree(together is not None):
        if together is not None:
            together.revoke()  # whoever has come gives up
        return False
    assert together is not None
    take_place(together.rank, size=together.size)
    enter_world(together)
    return True


def _handed_over(left: "MPICommunicator", count: int) -> str:
    names = [name for name in os.environ if name.startswith(_HANDED_OVER)]
    own = {BEFORE: str(left.size), "PHALANX_RANKS": str(left.size + count)}
    return json.dumps({name: os.environ[name] for name in names} | own)
