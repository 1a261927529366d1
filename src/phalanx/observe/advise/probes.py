"""What ranks measure of the machine rather than of a model: the exchange alone, and the network."""

import time
from statistics import median
from typing import final

import torch
from torch import Tensor, nn

from phalanx import clock
from phalanx.comm.base import Communicator
from phalanx.comm.hosts import Hosts
from phalanx.data.split import Split
from phalanx.observe.advise.link import Link
from phalanx.observe.advise.measurements import Exchanged
from phalanx.observe.advise.stopwatch import MEETING
from phalanx.settings.table import Settings
from phalanx.strategies.registry import make
from phalanx.train.optimizers import make_optimizer
from phalanx.train.trainer import Trainer

#: Gradients to exchange, in bytes: some that MPI adds up, some in the caches of cores and of hosts,
#: and one in neither.
_SIZES = (1 << 11, 1 << 14, 1 << 18, 1 << 22, 1 << 25)
_STEPS = 12
#: Messages between hosts grow until one takes so many seconds, or has so many bytes.
_LONG, _LARGEST = 0.05, 1 << 24


@final
class _Weights(nn.Module):
    """So many weights, and next to nothing to compute."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(count))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + self.weights[:2]


def time_exchange(comm: Communicator, settings: Settings, *, strategy: str) -> list[Exchanged]:
    """Collective. How long the strategy takes to exchange gradients of several sizes."""
    found = []
    samples = Split(torch.zeros(comm.size, 2), torch.zeros(comm.size, dtype=torch.int64))
    for size in _SIZES:
        model = _Weights(size // 4)
        optimizer = make_optimizer(settings, model.parameters())
        how = make(strategy, settings.strategy_options)
        with Trainer(model, optimizer, strategy=how, comm=comm) as trainer:
            trainer.fit(samples, epochs=3, batch_size=comm.size)
            phases = clock.start()
            trainer.fit(samples, epochs=_STEPS, batch_size=comm.size)
            clock.stop()
        mine = sum(phases.seconds.get(name, 0.0) for name in MEETING) / _STEPS
        # Who computes longest waits least: what it takes is what an exchange takes.
        found.append(Exchanged(size, min(comm.allgather_objects(mine))))
    return found


def time_link(comm: Communicator, hosts: Hosts) -> Link | None:
    """Collective. Latency and bandwidth between the first two hosts; None if there is but one."""
    leaders = hosts.everyone.allgather_objects(comm.rank if hosts.host.rank == 0 else None)
    first, *others = [rank for rank in leaders if rank is not None]
    if not others:
        return None
    found = None
    if comm.rank in (first, others[0]):
        other = others[0] if comm.rank == first else first
        found = _ping_pong(comm, other, first=comm.rank == first)
    wait_for(comm)
    return comm.broadcast_object(found, root=first)


def _ping_pong(comm: Communicator, other: int, *, first: bool) -> Link:
    latency = _one_way(comm, other, first=first, size=8, times=200)
    size, before = 1 << 16, _one_way(comm, other, first=first, size=1 << 16, times=10)
    while True:
        size *= 4
        taken = _one_way(comm, other, first=first, size=size, times=3)
        if taken > _LONG or size >= _LARGEST:
            return Link((size - size / 4) / max(taken - before, 1e-9), latency)
        before = taken


def _one_way(comm: Communicator, other: int, *, first: bool, size: int, times: int) -> float:
    """Seconds of a message from one to the other, as both know it afterwards."""
    buffer = torch.zeros(size, dtype=torch.uint8)
    found = torch.zeros(1, dtype=torch.float64)
    rounds = []
    for _ in range(1 + times):
        started = time.perf_counter()
        for sending in (first, not first):
            if sending:
                comm.send(buffer, other)
            else:
                comm.receive(buffer, other)
        rounds.append((time.perf_counter() - started) / 2)
    found[0] = median(rounds[1:])
    if first:
        comm.send(found, other)
    else:
        comm.receive(found, other)
    return float(found)


def wait_for(comm: Communicator) -> None:
    """Collective. A barrier that leaves cores in peace: who waits in MPI's own computes."""
    meeting = comm.ibarrier()
    while not meeting.test():
        time.sleep(0.002)
