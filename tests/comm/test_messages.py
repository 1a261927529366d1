"""Messages of the size that their receiver expects, and of others: nothing is written elsewhere."""

import pytest
import torch

from phalanx.comm.base import Communicator
from phalanx.comm.checked import unchecked
from phalanx.errors import MismatchError, UsageError

#: Elements: MPI sends short messages at once, and has the receiver fetch long ones.
SIZES = (10, 1_000_000)
GUARD = 4096


def guarded(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A buffer in the middle of memory that must not change, and all of that memory."""
    memory = torch.full((count + 2 * GUARD,), -1.0)
    return memory[GUARD : GUARD + count], memory


def take(mpi: Communicator, buffer: torch.Tensor, way: str) -> None:
    if way == "receive":
        mpi.receive(buffer, 0)
        return
    pending = mpi.ireceive(buffer, 0)
    while way == "test" and not pending.test():
        pass
    if way == "wait_any":
        mpi.wait_any([pending])
    pending.wait()


@pytest.mark.ranks(2)
@pytest.mark.parametrize("way", ["wait", "test", "wait_any", "receive"])
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("more", [GUARD, -5])
def test_a_message_of_another_size(comm: Communicator, way: str, count: int, more: int) -> None:
    mpi = unchecked(comm)
    if comm.rank == 0:
        mpi.send(torch.ones(count + more), 1)
        mpi.send(torch.full((3,), 7.0), 1)
    else:
        buffer, memory = guarded(count)
        message = rf"rank 0 sent {4 * (count + more)} bytes, rank 1 expects the {4 * count} of"
        with pytest.raises(MismatchError, match=message):
            take(mpi, buffer, way)
        assert memory.eq(-1).all(), "nothing of it came to lie anywhere"
        after = torch.zeros(3)
        mpi.receive(after, 0)
        assert after.tolist() == [7.0] * 3
    comm.barrier()


@pytest.mark.ranks(2)
def test_messages_of_several_sizes_and_one_tag_keep_their_order(comm: Communicator) -> None:
    mpi = unchecked(comm)
    sizes = (5, 1_000_000, 5, 0)
    if comm.rank == 0:
        sent = [mpi.isend(torch.full((size,), float(n)), 1) for n, size in enumerate(sizes)]
        for request in sent:
            request.wait()
    else:
        buffers = [torch.zeros(size) for size in sizes]
        pending = [mpi.ireceive(buffer, 0) for buffer in buffers]
        for request in reversed(pending):
            request.wait()
        for number, buffer in enumerate(buffers):
            assert buffer.eq(number).all()
    comm.barrier()


@pytest.mark.ranks(2)
def test_a_long_message_arrives_while_its_receiver_waits_for_something_else(
    comm: Communicator,
) -> None:
    """As MPI has it: a receive that was begun needs no further call of its own."""
    mpi = unchecked(comm)
    mine, theirs = torch.full((1_000_000,), float(comm.rank)), torch.zeros(1_000_000)
    pending = mpi.ireceive(theirs, 1 - comm.rank)
    mpi.send(mine, 1 - comm.rank)
    mpi.barrier()
    pending.wait()
    assert theirs.eq(1 - comm.rank).all()


@pytest.mark.ranks(2)
@pytest.mark.parametrize("tag", [-1, 1 << 16])
def test_tags_that_there_are_none_of(comm: Communicator, tag: int) -> None:
    with pytest.raises(UsageError, match=f"a tag is from 0 to 65535, not {tag}"):
        unchecked(comm).isend(torch.zeros(1), 1 - comm.rank, tag=tag)
