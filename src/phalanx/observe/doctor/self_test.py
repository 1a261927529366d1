"""The program of the ranks that are examined: where they are, and whether what they do comes right.

The first of them prints what was found as lines of JSON, each as soon as it is known, so that one
sees how far ranks came that got stuck.
"""

import json
import os
import platform
import socket
from importlib.metadata import version
from typing import Any

import torch

from phalanx.comm import world
from phalanx.comm.base import Communicator
from phalanx.comm.diagnosis.library import library
from phalanx.comm.hosts import arrange
from phalanx.comm.launch.process import available_cores, die_with_parent
from phalanx.comm.shared import SharedMemory, SharedMemoryError, room_for
from phalanx.observe.doctor.links import measure_link
from phalanx.observe.doctor.verbs import TRIALS

_SHARED_NUMBERS = 1 << 16


def main() -> None:
    """Examine the ranks of this job."""
    die_with_parent()
    comm = world()
    _tell(comm, size=comm.size)
    _tell(comm, places=comm.allgather_objects(_place()))
    right: list[str] = []
    for name, trial in TRIALS.items():
        _tell(comm, trying=name)
        wrong = [rank for rank, ok in enumerate(comm.allgather_objects(trial(comm))) if not ok]
        right += [] if wrong else [name]
        _tell(comm, right=right, **({f"wrong {name}": wrong} if wrong else {}))
    _tell(comm, trying="shared memory")
    _tell(comm, shared=comm.allgather_objects(_share(comm)))
    _tell(comm, trying="messages between two ranks")
    _tell(comm, links=_links(comm))
    comm.barrier()
    _tell(comm, done=True)


def _tell(comm: Communicator, **facts: Any) -> None:
    if comm.rank == 0:
        print(json.dumps(facts), flush=True)


def _place() -> dict[str, Any]:
    """Where this rank is, and what it runs with."""
    return {
        "host": socket.gethostname(),
        "cpus": sorted(os.sched_getaffinity(0)),
        "cores": available_cores(),
        "threads": torch.get_num_threads(),
        "versions": {
            "Python": platform.python_version(),
            **{name: version(name) for name in ("phalanx", "torch", "numpy", "mpi4py")},
            "MPI": library().version,
        },
    }


def _share(comm: Communicator) -> str:
    """Collective. What is wrong with memory that the ranks of this host share; empty if nothing."""
    host = comm.host()
    try:
        shape = (host.size, _SHARED_NUMBERS)
        numbers = SharedMemory(host, room_for(shape, torch.float32)).tensor(shape, torch.float32)
    except SharedMemoryError as error:
        return str(error)
    numbers[host.rank] = host.rank + 1.0
    host.barrier()
    seen = numbers.sum(1).tolist()
    host.barrier()
    expected = [(rank + 1.0) * _SHARED_NUMBERS for rank in range(host.size)]
    return "" if seen == expected else f"a rank does not see what others write: {seen}"


def _links(comm: Communicator) -> list[dict[str, Any]]:
    """Collective. From the first rank to the first one of every other host, or to its neighbour."""
    layout = arrange(comm)
    leads = layout.host.rank == 0
    chosen = [rank for rank, one in enumerate(comm.allgather_objects(leads)) if one]
    if len(chosen) == 1:
        chosen = [*range(min(2, comm.size))]
    layout.free()
    return [measure_link(comm, other) for other in chosen if other != 0]


if __name__ == "__main__":
    main()
