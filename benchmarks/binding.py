"""Ranks that their launcher leaves unbound bind themselves, as mpiexec does it for ours."""

import os


def bind_to_core(threads: int = 1) -> None:
    """Keep this rank on cores of its own, if there are enough for all ranks of torchrun."""
    rank, ranks = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    cores = sorted(os.sched_getaffinity(0))
    if ranks * threads <= len(cores):
        os.sched_setaffinity(0, cores[rank * threads : (rank + 1) * threads])
