"""Messages from one rank to another, on every communicator that has several."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from phalanx.comm.base import Communicator
from phalanx.errors import UsageError

pytestmark = [
    pytest.mark.ranks(2, 3),
    pytest.mark.parametrize("kind", ["mpi", "checked", "distributed", "staged"], indirect=True),
]


@pytest.mark.parametrize("count", [0, 1, 100_000])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
def test_a_ring(world: Communicator, dtype: str, count: int) -> None:
    kind = getattr(torch, dtype)
    sent = torch.full((count,), world.rank % 2, dtype=kind)
    received = torch.zeros(count, dtype=kind)
    before = (world.rank - 1) % world.size
    pending = world.isend(sent, (world.rank + 1) % world.size, tag=3)
    world.receive(received, before, tag=3)
    pending.wait()
    assert torch.equal(received, torch.full((count,), before % 2, dtype=kind))


def test_blocking(world: Communicator, make: Callable[..., Any]) -> None:
    buffer = make([1, 2, 3])
    if world.rank == 0:
        world.send(make([4, 5, 6]), 1)
    elif world.rank == 1:
        world.receive(buffer, 0)
        assert buffer.tolist() == [4, 5, 6]


def test_messages_keep_their_order(world: Communicator) -> None:
    """Whichever receive is waited for first."""
    if world.rank == 0:
        sends = [world.isend(torch.tensor([number]), 1) for number in range(4)]
        for pending in sends:
            pending.wait()
    elif world.rank == 1:
        buffers = [torch.zeros(1, dtype=torch.int64) for _ in range(4)]
        receives = [world.ireceive(buffer, 0) for buffer in buffers]
        for pending in reversed(receives):
            pending.wait()
        assert [int(buffer) for buffer in buffers] == [0, 1, 2, 3]


def test_tags_tell_messages_apart(world: Communicator) -> None:
    buffer = torch.zeros(1)
    if world.rank == 0:
        first = world.isend(torch.tensor([1.0]), 1, tag=1)
        second = world.isend(torch.tensor([2.0]), 1, tag=2)
        first.wait()
        second.wait()
    elif world.rank == 1:
        world.receive(buffer, 0, tag=2)
        assert buffer.item() == 2
        pending = world.ireceive(buffer, 0, tag=1)
        while not pending.test():
            pass
        assert buffer.item() == 1


def test_wait_for_whichever_comes_first(world: Communicator) -> None:
    """The last rank sends when it is told to, and so its message cannot be the first."""
    if world.rank > 0:
        if world.rank == world.size - 1:
            world.receive(torch.zeros(1), 0)
        world.send(torch.full((1000,), float(world.rank)), 0, tag=1)
        return
    buffers = [torch.zeros(1000) for _ in range(1, world.size)]
    pending = {
        rank: world.ireceive(buffer, rank, tag=1)
        for rank, buffer in reversed(list(enumerate(buffers, 1)))
    }
    order = []
    while pending:
        if list(pending) == [world.size - 1]:
            world.send(torch.zeros(1), world.size - 1)
        rank = list(pending)[world.wait_any(list(pending.values()))]
        assert pending.pop(rank).test()
        assert (buffers[rank - 1] == rank).all()
        order.append(rank)
    assert order == list(range(1, world.size))


def test_waiting_finds_what_was_done_before(world: Communicator) -> None:
    """Two messages of one rank, and one that never comes before they do."""
    if world.rank == 0:
        buffers = [torch.zeros(1) for _ in range(3)]
        tagged = zip(buffers, (1, 1, 2), strict=True)
        receives = [world.ireceive(buffer, 1, tag=tag) for buffer, tag in tagged]
        assert world.wait_any([receives[2], receives[0]]) == 1
        assert world.wait_any([receives[2], receives[0]]) == 1
        assert world.wait_any([receives[2], receives[1]]) == 1
        reply = world.isend(torch.zeros(1), 1)
        assert world.wait_any([reply]) == 0
        assert world.wait_any([receives[2]]) == 0
        assert [buffer.item() for buffer in buffers] == [1, 2, 3]
    elif world.rank == 1:
        world.send(torch.tensor([1.0]), 0, tag=1)
        world.send(torch.tensor([2.0]), 0, tag=1)
        world.receive(torch.zeros(1), 0)
        world.send(torch.tensor([3.0]), 0, tag=2)


def test_waiting_for_nothing_is_refused(world: Communicator) -> None:
    with pytest.raises(UsageError, match="wait_any"):
        world.wait_any([])
