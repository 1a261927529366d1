"""More elements than MPI can count: here it is told that it can count to 4."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from phalanx.comm.base import Call, Communicator
from phalanx.comm.buffers import plan
from phalanx.comm.operations import large, memory
from phalanx.errors import UsageError

pytestmark = [
    pytest.mark.ranks(3),
    pytest.mark.parametrize("kind", ["mpi"], indirect=True),
]
Do = Callable[..., None]


def mine(world: Communicator, count: int) -> Tensor:
    return torch.arange(count, dtype=torch.float32) + 100 * world.rank


def everybody(do: Do, world: Communicator, *, root: int) -> list[Tensor]:
    """All that ranks receive when they use every verb with such buffers."""
    size = world.size
    broadcast, total, here = mine(world, 11), mine(world, 11), mine(world, 11).bfloat16()
    do("broadcast", broadcast, root)
    do("allreduce", total)
    do("reduce", here, root, op="maximum")
    into, part = torch.zeros(11), torch.zeros(5)
    do("allreduce", mine(world, 11), "minimum", into=into)
    do("reduce_scatter", mine(world, 5 * size), part)
    some = torch.zeros(6 * world.rank)
    do("reduce_scatter", mine(world, 18), some, counts=[0, 6, 12])
    scattered, gathered = torch.zeros(5), torch.zeros(5 * size)
    do("scatter", mine(world, 5 * size) if world.rank == root else None, scattered, root)
    do("gather", mine(world, 5), gathered if world.rank == root else None, root)
    everything, exchanged = torch.zeros(5 * size), torch.zeros(5 * size)
    do("allgather", mine(world, 5), everything)
    do("all_to_all", mine(world, 5 * size), exchanged)
    uneven = torch.zeros(18)
    do("allgather", mine(world, 6 * world.rank), uneven, counts=[0, 6, 12])
    in_place = torch.full((size, 5), float(world.rank))
    do("allgather", in_place[world.rank], in_place)
    do("scatter", in_place, in_place[world.rank], root)
    received = [broadcast, total, here, into, part, some, scattered, gathered]
    return [*received, everything, exchanged, uneven, in_place]


def test_every_verb_gives_the_same(
    world: Communicator, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = everybody(do, world, root=1)
    monkeypatch.setattr(memory, "LARGEST", 4)
    found = everybody(do, world, root=1)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert torch.equal(one, other), number


def test_messages_arrive(world: Communicator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LARGEST", 4)
    before, after = (world.rank - 1) % world.size, (world.rank + 1) % world.size
    received = torch.zeros(11)
    pending = world.ireceive(received, before)
    world.send(mine(world, 11), after)
    pending.wait()
    assert torch.equal(received, torch.arange(11.0) + 100 * before)


def test_nothing_is_cut_short_in_silence(
    world: Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of any size: that they are too large is not known to all ranks."""
    monkeypatch.setattr(memory, "LARGEST", 4)
    with pytest.raises(UsageError, match="at most 4 elements at a time where ranks have parts"):
        world.all_to_all(
            mine(world, 9), torch.zeros(9), send_counts=[3] * 3, receive_counts=[3] * 3
        )


def test_a_prepared_call_of_several_operations(
    world: Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "LARGEST", 4)
    buffer = torch.ones(11)
    call = Call("allreduce", receive=buffer, op="sum")
    run, begin = world.prepare(call), world.prepare_start(call)
    run()
    begin().wait()
    assert buffer.tolist() == [9.0] * 11


def test_what_needs_no_cutting_is_one_operation(world: Communicator) -> None:
    call = Call("allreduce", receive=torch.ones(11), op="sum")
    planned = plan(call, world.rank, size=world.size)
    found = large.operations(call, planned, rank=world.rank, size=world.size)
    assert [one.name for one in found] == ["Allreduce"]
