"""The memory bandwidth of all ranks' cores together, and the exchange that it would allow.

As STREAM does: copy reads and writes each byte once, add reads two arrays and writes a third. Each
size is measured with the working set of an exchange of that size, in whatever cache it fits.
"""

import json
import time
from argparse import ArgumentParser
from collections.abc import Callable

import torch

from benchmarks.exchange import SIZES, iterations
from phalanx.comm import world
from phalanx.comm.base import Communicator

_BLOCKS = 5


def limit_seconds(size: int, *, ranks: int, bandwidth: float) -> float:
    """The least time to sum `ranks` buffers: each is read once, and the sum written once."""
    return (ranks + 1) * size / bandwidth


def measure(comm: Communicator, size: int) -> tuple[float, float]:
    """Collective. Bytes per second of copy and of add, when all ranks share the work."""
    elements = max(1, size // 4 // comm.size)
    first, second, third = (torch.ones(elements) for _ in range(3))
    copied = _best(comm, lambda: third.copy_(first), size=size)
    added = _best(comm, lambda: torch.add(first, second, out=third), size=size)
    whole = elements * 4 * comm.size
    return 2 * whole / copied, 3 * whole / added


def _best(comm: Communicator, work: Callable[[], object], *, size: int) -> float:
    """Collective. Seconds until the slowest rank is done, in the fastest block."""
    count = iterations(size)
    best = float("inf")
    for _ in range(_BLOCKS + 1):  # the first warms up
        comm.barrier()
        started = time.perf_counter()
        for _ in range(count):
            work()
        seconds = torch.tensor([(time.perf_counter() - started) / count], dtype=torch.float64)
        comm.allreduce(seconds, "maximum")
        best = min(best, seconds.item())
    return best


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="bytes, multiples of 4")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    comm = world()
    for size in map(int, arguments.sizes.split(",")):
        copied, added = measure(comm, size)
        if comm.rank == 0:
            line = {"method": "bandwidth", "bytes": size, "copy": copied, "add": added}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
