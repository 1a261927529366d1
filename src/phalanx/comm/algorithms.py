"""How MPI_Allreduce adds up: a choice among Open MPI's own algorithms.

Open MPI decides by message size and number of ranks, unless its control variables say otherwise.
Its component `tuned` runs the blocking operation and looks at them when a communicator is made;
`libnbc` runs the non-blocking one and looks at every call. Each has numbers of its own. The names
and their check are in `algorithm_names.py`, which knows nothing of MPI.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, final

from phalanx.comm.algorithm_names import AUTO, LIBNBC, TUNED, check
from phalanx.errors import UsageError

if TYPE_CHECKING:
    from phalanx.comm.base import Communicator

#: Bytes, as Open MPI cuts when it takes the segmented ring by itself. Its default for a ring that
#: is asked for is not to cut at all.
_SEGMENT = 1 << 20
#: On fewer ranks `libnbc` reduces to one and broadcasts from there, which takes a network twice as
#: long as the ring that it takes on more of them.
_FEW = 4


def choose(comm: "Communicator", name: str, *, started: bool = False) -> "Communicator":
    """Collective. The same ranks, in a communicator whose allreduce uses the algorithm.

    With `started` its iallreduce does, too. It is a new communicator, to be freed, unless nothing
    needs to be chosen. Raises UsageError where the MPI has no switch for it. `auto` is MPI's own
    choice, but for the iallreduce of few ranks.
    """
    check(name, started=started)
    if comm.size == 1:
        return comm
    if name == AUTO:
        return _with_ring(comm) if started and comm.size < _FEW else comm
    with _kept(_tuned(name), name):
        tuned = comm.split(0, comm.rank)
    return _with_algorithm(tuned, name) if started else tuned


def _with_ring(comm: "Communicator") -> "Communicator":
    """Collective. What suits a network, where MPI has a switch for it."""
    try:
        _set({}, AUTO)
    except UsageError:
        return comm
    return _with_algorithm(comm.split(0, comm.rank), "ring")


def _with_algorithm(comm: "Communicator", name: str) -> "Communicator":
    from phalanx.comm.tuned import TunedCommunicator

    return TunedCommunicator(comm, partial(_kept, _libnbc(name), name))


def _tuned(name: str) -> dict[str, int]:
    return {
        # Between hosts the component `han` comes first otherwise, and asks nobody.
        "coll_tuned_priority": 100,
        "coll_tuned_use_dynamic_rules": 1,
        "coll_tuned_allreduce_algorithm": TUNED[name],
        "coll_tuned_allreduce_algorithm_segmentsize": _SEGMENT if name == "segmented-ring" else 0,
    }


def _libnbc(name: str) -> dict[str, int]:
    return {"coll_libnbc_iallreduce_algorithm": LIBNBC[name]}


@contextmanager
def _kept(values: dict[str, int], name: str) -> Iterator[None]:
    """Inside, variables have these values; afterwards those from before."""
    before = _set(values, name)
    try:
        yield
    finally:
        _set(before, name)


def _set(values: dict[str, int], name: str) -> dict[str, int]:
    """Give variables of Open MPI these values; those from before. `name` is for error messages."""
    from mpi4py import MPI

    vendor, version = MPI.get_vendor()
    release = f"{vendor} {'.'.join(map(str, version))}"
    if vendor != "Open MPI":
        raise UsageError(
            f"algorithm '{name}': {release} has no switch for it, only Open MPI has; "
            f"leave the choice to the MPI with '{AUTO}'"
        )
    before = {}
    for variable, value in values.items():
        switch = _switch(variable)
        found = None if switch is None else switch.read()
        if found is not None:
            before[variable] = found
        if found != value and (switch is None or not switch.write(value)):
            raise UsageError(
                f"algorithm '{name}': {release} takes it only when it starts; start the ranks "
                f"with {' '.join(f'OMPI_MCA_{key}={one}' for key, one in values.items())}"
            )
    return before


@cache
def _switch(variable: str) -> "_Switch | None":
    """One of MPI's control variables, if it has it."""
    from mpi4py import MPI

    library: Any = ctypes.CDLL(MPI.__file__)
    # Open MPI takes the level asked for here as that of all of MPI, so it must stay the same. To
    # end what is begun here takes milliseconds, and so is left to MPI's own end.
    library.MPI_T_init_thread(MPI.Query_thread(), ctypes.byref(ctypes.c_int()))
    index, count, handle = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
    if library.MPI_T_cvar_get_index(variable.encode(), ctypes.byref(index)):
        return None
    if library.MPI_T_cvar_handle_alloc(index, None, ctypes.byref(handle), ctypes.byref(count)):
        return None
    return _Switch(library, handle)


@final
class _Switch:
    """A variable, through MPI's interface for tools, which mpi4py does not have."""

    def __init__(self, library: Any, handle: ctypes.c_void_p) -> None:
        self._library, self._handle = library, handle

    def read(self) -> int | None:
        """Its value."""
        value = ctypes.c_int(0)
        failed = self._library.MPI_T_cvar_read(self._handle, ctypes.byref(value))
        return None if failed else value.value

    def write(self, value: int) -> bool:
        """Whether it took the value: some may be set only before MPI starts."""
        return not self._library.MPI_T_cvar_write(self._handle, ctypes.byref(ctypes.c_int(value)))
