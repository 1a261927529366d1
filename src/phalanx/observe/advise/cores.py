"""One rank with all cores of its host: what `--threads` brings instead of ranks."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from phalanx.comm.launch.process import available_cores
from phalanx.observe.advise.measurements import Pace
from phalanx.observe.advise.probes import wait_for
from phalanx.train.compute import spare_threads
from phalanx.train.session import Session


def with_all_cores(
    session: Session, time: Callable[[], Pace], *, samples: int
) -> tuple[int, Pace] | None:
    """Collective. What is timed, on the first rank, with a thread for each core that the ranks of
    its host have, while they wait; and how many these are. None if it has them all, or so many
    samples a step are too few for more, or a user has said how many to take."""
    comm, found = session.comm, None
    host = comm.host()
    cores = frozenset[int]().union(*host.allgather_objects(os.sched_getaffinity(0)))
    host.free()
    said = session.settings.threads is not None or "OMP_NUM_THREADS" in os.environ
    if comm.rank == 0 and not said:
        before = torch.get_num_threads()
        with _on(cores):
            if (count := available_cores()) > before:
                torch.set_num_threads(count)
                spare_threads(session.model, session.dataset.input_shape, samples=samples)
                if torch.get_num_threads() == count:
                    found = count, time()
                torch.set_num_threads(before)
    wait_for(comm)
    return comm.broadcast_object(found)


@contextmanager
def _on(cores: Iterable[int]) -> Iterator[None]:
    """Let this process compute on other cores than it was bound to."""
    tasks = [int(one.name) for one in Path("/proc/self/task").iterdir()]
    before = {task: os.sched_getaffinity(task) for task in tasks}
    for task in tasks:
        os.sched_setaffinity(task, cores)
    try:
        yield
    finally:
        for task, own in before.items():
            os.sched_setaffinity(task, own)
