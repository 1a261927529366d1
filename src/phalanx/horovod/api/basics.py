"""Starting and ending, who is who, and what this build can do."""

import sys
from collections.abc import Sequence

from phalanx.comm.launch.process import keep_freed_memory
from phalanx.errors import PhalanxError, UsageError
from phalanx.horovod.api.process_sets import (
    ProcessSet,
    add_static_process_sets,
    as_process_set,
    forget_all,
)
from phalanx.horovod.engine import context


def init(
    comm: object = None, process_sets: Sequence[ProcessSet | Sequence[int]] | str | None = None
) -> None:
    """Collective. Get ready; does nothing if this was done before.

    `comm` is a list of ranks, an mpi4py communicator or one of Phalanx; by default all ranks of the
    job. `process_sets` may differ from rank to rank. If this fails, nothing has been started.
    The environment variables of Horovod are read now. Works in a single process without MPI.
    glibc's allocator is told to keep freed memory, as in `phalanx train`: a CNN steps faster by a
    third; MALLOC_TRIM_THRESHOLD_ and its like in the environment say otherwise.
    """
    if context.is_open():
        return
    if isinstance(process_sets, str) and process_sets.lower() != "dynamic":
        raise UsageError(f"process_sets is a list or 'dynamic', not '{process_sets}'")
    given = [] if process_sets is None or isinstance(process_sets, str) else process_sets
    wanted = [as_process_set(one) for one in given]
    context.open_context(comm)
    keep_freed_memory()
    try:
        add_static_process_sets(wanted)
    except PhalanxError:
        shutdown()
        raise


def shutdown() -> None:
    """Collective. End; what other ranks have under way fails there. Waits until all have come."""
    context.close_context()
    forget_all()


def is_initialized() -> bool:
    """Whether `init` has been called, and `shutdown` not since."""
    return context.is_open()


def rank() -> int:
    """This process's number, from 0."""
    return context.current().control.rank


def size() -> int:
    """How many processes there are."""
    return context.current().control.size


def local_rank() -> int:
    """This process's number among those on its host."""
    return context.current().local_rank


def local_size() -> int:
    """How many processes are on this host."""
    return context.current().local_size


def cross_rank() -> int:
    """The number of this host among those that have a process of this local rank."""
    return context.current().cross_rank


def cross_size() -> int:
    """How many hosts have a process of this local rank."""
    return context.current().cross_size


def is_homogeneous() -> bool:
    """Whether all hosts have the same number of processes."""
    return context.current().is_homogeneous


def mpi_threads_supported() -> bool:
    """Whether several threads may use MPI at the same time."""
    return context.current().threads


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Have rank 0 write a timeline; complete after `stop_timeline` or `shutdown`."""
    if rank() == 0:
        context.current().timeline.start(file_path, mark_cycles=mark_cycles)


def stop_timeline() -> None:
    """Complete the timeline."""
    context.current().timeline.stop()


def mpi_enabled() -> bool:
    """Whether this job runs over MPI; a single process does not need to."""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and bool(mpi.Is_initialized())


def mpi_built() -> bool:
    """Whether MPI can be used: mpi4py is a dependency, and always there."""
    return True


def gloo_enabled() -> bool:
    """False: everything goes over MPI."""
    return False


def gloo_built() -> bool:
    """False: everything goes over MPI."""
    return False


def nccl_built() -> int:
    """0: everything goes over MPI."""
    return 0


def ddl_built() -> bool:
    """False: everything goes over MPI."""
    return False


def ccl_built() -> bool:
    """False: everything goes over MPI."""
    return False


def cuda_built() -> bool:
    """False: tensors on a GPU travel through the host's memory."""
    return False


def rocm_built() -> bool:
    """False: tensors on a GPU travel through the host's memory."""
    return False
