"""Ranks that disagree are told so, on every rank, and can go on."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from phalanx.comm.base import Communicator
from phalanx.errors import MismatchError, UsageError

pytestmark = pytest.mark.ranks(2, 3)


def disagree(comm: Communicator, call: Callable[[bool], Any], message: str) -> None:
    """Every rank hears the message, the last one having called something else; all still works."""
    odd = comm.rank == comm.size - 1
    with pytest.raises(MismatchError) as error:
        call(odd)
    assert str(error.value) == message.format(last=comm.size - 1)
    total = torch.ones(1)
    comm.allreduce(total)
    assert total.item() == comm.size


@pytest.mark.parametrize("verb", ["allreduce", "iallreduce", "broadcast", "reduce"])
def test_shapes(comm: Communicator, verb: str) -> None:
    disagree(
        comm,
        lambda odd: getattr(comm, verb)(torch.zeros(10 if odd else 12)),
        f"{verb.lstrip('i')}: rank {{last}} brought float32[10], rank 0 brought float32[12]",
    )


def test_dtypes(comm: Communicator) -> None:
    kinds = {False: torch.float32, True: torch.bfloat16}
    disagree(
        comm,
        lambda odd: comm.allreduce(torch.zeros(3, dtype=kinds[odd])),
        "allreduce: rank {last} brought bfloat16[3], rank 0 brought float32[3]",
    )
    disagree(
        comm,
        lambda odd: comm.allgather(
            torch.zeros(3, dtype=kinds[odd]), torch.zeros(3 * comm.size, dtype=kinds[odd])
        ),
        "allgather: rank {last} brought bfloat16, rank 0 brought float32",
    )


def test_verbs(comm: Communicator) -> None:
    disagree(
        comm,
        lambda odd: comm.broadcast(torch.zeros(1)) if odd else comm.allreduce(torch.zeros(1)),
        "rank {last} called broadcast, rank 0 allreduce",
    )
    disagree(
        comm,
        lambda odd: comm.split(0) if odd else comm.barrier(),
        "rank {last} called split, rank 0 barrier",
    )
    disagree(
        comm,
        lambda odd: comm.allgather_objects(1) if odd else comm.broadcast_object(1),
        "rank {last} called allgather_objects, rank 0 broadcast_object",
    )


def test_roots_and_ops(comm: Communicator) -> None:
    disagree(
        comm,
        lambda odd: comm.broadcast(torch.zeros(1), int(odd)),
        "broadcast: rank {last} named root 1, rank 0 named root 0",
    )
    disagree(
        comm,
        lambda odd: comm.allreduce(torch.zeros(1), "minimum" if odd else "sum"),
        "allreduce: rank {last} asked for minimum, rank 0 asked for sum",
    )


def test_parts(comm: Communicator) -> None:
    whole = torch.zeros(2 * comm.size)
    disagree(
        comm,
        lambda odd: comm.scatter(whole, torch.zeros(5 if odd else 2)),
        "scatter: rank 0 sends 2 elements to rank {last}, rank {last} expects 5",
    )
    disagree(
        comm,
        lambda odd: comm.gather(torch.zeros(5 if odd else 2), whole),
        "gather: rank {last} sends 5 elements to rank 0, rank 0 expects 2",
    )
    disagree(
        comm,
        lambda odd: comm.allgather(
            torch.zeros(1 + odd), torch.zeros(comm.size * 2 if odd else comm.size)
        ),
        "allgather: rank 0 sends 1 elements to rank {last}, rank {last} expects 2",
    )
    disagree(
        comm,
        lambda odd: comm.reduce_scatter(
            torch.zeros(comm.size * (2 if odd else 1)), torch.zeros(1 + odd)
        ),
        "reduce_scatter: rank 0 sends 1 elements to rank {last}, rank {last} expects 2",
    )


def test_counts(comm: Communicator) -> None:
    ones = [1] * comm.size
    whole = torch.zeros(comm.size)
    disagree(
        comm,
        lambda odd: comm.allgather(torch.zeros(1), whole, counts=ones if odd else None),
        "allgather: rank {last} gave counts, rank 0 gave no counts",
    )
    shifted = [comm.size, *[0] * (comm.size - 1)]
    disagree(
        comm,
        lambda odd: comm.all_to_all(
            whole, whole.clone(), send_counts=shifted if odd else ones, receive_counts=ones
        ),
        f"all_to_all: rank {{last}} sends {comm.size} elements to rank 0, rank 0 expects 1",
    )


def test_a_refusal_on_one_rank_is_told_to_the_others(comm: Communicator) -> None:
    buffer = torch.zeros(4, 4)
    if comm.rank == 1:
        with pytest.raises(UsageError, match="not contiguous"):
            comm.allreduce(buffer[:, 0])
    else:
        with pytest.raises(MismatchError, match=r"rank 1 failed: allreduce: .* not contiguous"):
            comm.allreduce(buffer[:, 0].contiguous())
    comm.barrier()


@pytest.mark.parametrize("count", [3, 50_000])
@pytest.mark.parametrize("started", [False, True])
def test_messages(comm: Communicator, count: int, started: bool) -> None:
    """The wrong message is taken out of the way, and does not touch memory beyond the buffer."""
    if comm.rank == 0:
        comm.send(torch.ones(count, dtype=torch.float64), 1)
        comm.send(torch.ones(2), 1)
    elif comm.rank == 1:
        arena = torch.zeros(count)
        message = rf"receive: rank 0 sent float64\[{count}\], rank 1 expects float32\[2\]"
        with pytest.raises(MismatchError, match=message):
            (comm.ireceive(arena[:2], 0).wait if started else lambda: comm.receive(arena[:2], 0))()
        assert not arena.any()
        comm.receive(arena[:2], 0)
        assert arena[:2].tolist() == [1, 1]
    comm.barrier()


@pytest.mark.parametrize("count", [1, 50_000])
def test_messages_of_the_wrong_size_without_checks(comm: Communicator, count: int) -> None:
    """MPI alone would write past the end of the buffer."""
    from phalanx.comm.mpi import open_world

    plain = open_world()
    if comm.rank == 0:
        plain.send(torch.ones(count), 1)
        plain.send(torch.ones(2), 1)
    elif comm.rank == 1:
        arena = torch.zeros(count + 2)
        with pytest.raises(MismatchError, match=rf"rank 0 sent {4 * count} bytes, rank 1 expects"):
            plain.receive(arena[:2], 0)
        assert not arena.any()
        plain.receive(arena[:2], 0)
        assert arena[:2].tolist() == [1, 1]
    comm.barrier()
    plain.free()


@pytest.mark.parametrize("what", ["split", "host"])
def test_what_comes_of_a_checked_communicator_is_checked(comm: Communicator, what: str) -> None:
    smaller = comm.split(0) if what == "split" else comm.host()
    disagree(
        smaller,
        lambda odd: smaller.barrier() if odd else smaller.allreduce(torch.zeros(1)),
        "rank {last} called barrier, rank 0 allreduce",
    )
    comm.barrier()
    smaller.free()
