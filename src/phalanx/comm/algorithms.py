"""How MPI_Allreduce adds up: a choice among Open MPI's own algorithms.

Open MPI decides by message size and number of ranks, unless its control variables say otherwise.
Its component `tuned` runs the blocking operation and looks at them when a communicator is made;
`libnbc` runs the non-blocking one and looks at every call. Each has numbers of its own. The names
and their check are in `algorithm_names.py`, which knows nothing of MPI.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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

    With `started` its iallreduce does, and so does that of every communicator from then on. Raises
    UsageError where the MPI has no switch for it. `auto` is MPI's own choice, but for the
    iallreduce of few ranks.
    """
    check(name, started=started)
    if comm.size == 1:
        return comm
    if name == AUTO:
        if started and comm.size < _FEW:
            with suppress(UsageError):
                _set(_libnbc("ring"), name)
        return comm
    _set(_libnbc(name) if started else {}, name)
    with _kept(_tuned(name), name):
        return comm.split(0, comm.rank)


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
    with _Variables(MPI.__file__, threads=MPI.Query_thread()) as variables:
        for variable, value in values.items():
            found = variables.read(variable)
            if found is not None:
                before[variable] = found
            if found != value and (found is None or not variables.write(variable, value)):
                raise UsageError(
                    f"algorithm '{name}': {release} takes it only when it starts; start the ranks "
                    f"with {' '.join(f'OMPI_MCA_{key}={one}' for key, one in values.items())}"
                )
    return before


@final
class _Variables:
    """MPI's control variables, through its interface for tools, which mpi4py does not have."""

    def __init__(self, library: str, *, threads: int) -> None:
        self._library: Any = ctypes.CDLL(library)
        self._threads = threads

    def __enter__(self) -> "_Variables":
        # Open MPI takes the level asked for here as that of all of MPI, so it must stay the same.
        self._library.MPI_T_init_thread(self._threads, ctypes.byref(ctypes.c_int()))
        return self

    def __exit__(self, *_error: object) -> None:
        self._library.MPI_T_finalize()

    def read(self, variable: str) -> int | None:
        """Its value, or None if there is no such variable."""
        value = ctypes.c_int(0)
        return value.value if self._call("MPI_T_cvar_read", variable, value) else None

    def write(self, variable: str, value: int) -> bool:
        """Whether it took the value: some may be set only before MPI starts."""
        return self._call("MPI_T_cvar_write", variable, ctypes.c_int(value))

    def _call(self, function: str, variable: str, value: ctypes.c_int) -> bool:
        index, count, handle = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        if self._library.MPI_T_cvar_get_index(variable.encode(), ctypes.byref(index)):
            return False
        arguments = (index, None, ctypes.byref(handle), ctypes.byref(count))
        if self._library.MPI_T_cvar_handle_alloc(*arguments):
            return False
        failed = getattr(self._library, function)(handle, ctypes.byref(value))
        self._library.MPI_T_cvar_handle_free(ctypes.byref(handle))
        return not failed
