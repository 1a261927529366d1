"""One gradient exchange by itself: what every rank brings is summed, and every rank reads the sum.

Run on every rank: `python -m benchmarks.exchange METHOD --sizes 16,1024`. Rank 0 prints one line
of JSON a size: the seconds of one exchange, in the fastest of several blocks.
"""

import json
import time
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from benchmarks.binding import bind_to_core
from benchmarks.gloo import end_without_teardown

SIZES = (16, 1 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 128 << 20)

_BLOCKS = 5


@dataclass(frozen=True)
class Exchange:
    """A buffer of one size, ready: `run` returns where this rank reads the sum."""

    buffer: Tensor
    run: Callable[[], Tensor]


@dataclass(frozen=True)
class Ranks:
    """A way to exchange; `open` and `close` are collective."""

    rank: int
    ranks: int
    open: Callable[[int], Exchange]
    close: Callable[[], None] = lambda: None
    #: Where ranks read the sum in common, wait until all have read it.
    settle: Callable[[], None] = lambda: None


def _gloo() -> Ranks:
    import torch.distributed as dist

    dist.init_process_group("gloo")

    def open_exchange(elements: int) -> Exchange:
        buffer = torch.zeros(elements)

        def run() -> Tensor:
            dist.all_reduce(buffer)
            return buffer

        return Exchange(buffer, run)

    return Ranks(dist.get_rank(), dist.get_world_size(), open_exchange, end_without_teardown)


def _gloo_bound() -> Ranks:
    bind_to_core()
    return _gloo()


def _mpi() -> Ranks:
    from mpi4py import MPI  # by itself, as quick as it can be called from Python

    comm = MPI.COMM_WORLD

    def open_exchange(elements: int) -> Exchange:
        buffer = torch.zeros(elements)
        array = buffer.numpy()

        def run() -> Tensor:
            comm.Allreduce(MPI.IN_PLACE, array)
            return buffer

        return Exchange(buffer, run)

    return Ranks(comm.Get_rank(), comm.Get_size(), open_exchange)


def _shared() -> Ranks:
    """As strategy `central` does it: a slice a rank, summed in memory that all ranks share.

    What is small is left to MPI.
    """
    from phalanx.comm import world
    from phalanx.comm.shared import SharedMemory, room_for
    from phalanx.exchange.rows import SMALL, RowSum, SmallSum, slice_of_rank

    comm = world()

    def open_small(elements: int) -> Exchange:
        rows = torch.zeros(2, elements)
        total, mine = rows[0], rows[1]
        small = SmallSum(comm, rows)

        def run() -> Tensor:
            small.add_up()
            return total

        return Exchange(mine, run)

    def open_exchange(elements: int) -> Exchange:
        if 4 * elements <= SMALL:
            return open_small(elements)
        shape = (comm.size, elements)
        memory = SharedMemory(comm, room_for(shape, torch.float32))
        rows = memory.tensor(shape, torch.float32)
        total = RowSum(rows, slice_of_rank(elements, comm.rank, of=comm.size))

        def run() -> Tensor:
            comm.barrier()
            total.add_up()
            comm.barrier()
            return rows[0]

        return Exchange(rows[comm.rank], run)

    return Ranks(comm.rank, comm.size, open_exchange, settle=comm.barrier)


def _horovod(module: str = "horovod.torch") -> Ranks:
    horovod: Any = import_module(module)
    horovod.init()

    def open_exchange(elements: int) -> Exchange:
        buffer = torch.zeros(elements)

        def run() -> Tensor:
            horovod.allreduce_(buffer, op=horovod.Sum, name=str(elements))
            return buffer

        return Exchange(buffer, run)

    return Ranks(horovod.rank(), horovod.size(), open_exchange)


#: Every way to exchange; exchange_run.py has their launchers.
METHODS: dict[str, Callable[[], Ranks]] = {
    "gloo": _gloo,
    "gloo-bound": _gloo_bound,
    "mpi": _mpi,
    "mpi-unbound": _mpi,
    "horovod": _horovod,
    "horovod-ours": partial(_horovod, "phalanx.horovod.torch"),
    "shared": _shared,
}


def measure(ranks: Ranks, size: int) -> float:
    """Collective. The seconds of one exchange of so many bytes."""
    exchange = ranks.open(size // 4)
    _check(ranks, exchange)
    # Sums in place would grow without end; zeros stay what they are.
    exchange.buffer.zero_()
    exchange.run()
    count = iterations(size)
    best = float("inf")
    for _ in range(_BLOCKS):
        started = time.perf_counter()
        for _ in range(count):
            exchange.run()
        best = min(best, (time.perf_counter() - started) / count)
    return best


def iterations(size: int) -> int:
    """How many exchanges a block has: enough to time, few enough to wait for."""
    return max(1, min(200, (32 << 20) // size))


def _check(ranks: Ranks, exchange: Exchange) -> None:
    exchange.buffer.copy_(torch.arange(len(exchange.buffer)) % 1000 + ranks.rank)
    expected = torch.arange(len(exchange.buffer)) % 1000 * ranks.ranks + sum(range(ranks.ranks))
    if not torch.equal(exchange.run(), expected.to(torch.float32)):
        raise ArithmeticError(f"rank {ranks.rank} reads a wrong sum")
    ranks.settle()


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="bytes, multiples of 4")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    ranks = METHODS[arguments.method]()
    for size in map(int, arguments.sizes.split(",")):
        seconds = measure(ranks, size)
        if ranks.rank == 0:
            line = {"method": arguments.method, "bytes": size, "seconds": seconds}
            print(json.dumps(line), flush=True)
    ranks.close()


if __name__ == "__main__":
    main()
