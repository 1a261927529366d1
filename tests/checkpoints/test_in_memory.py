"""Copies in the memory of a host: whole or not counted, whatever part of a state a rank has."""

import pytest
import torch

from phalanx.checkpoints.in_memory import Copies, newest_of_all
from phalanx.comm.base import Communicator
from phalanx.state import Share, Slice, State


def parts(comm: Communicator, value: float) -> State:
    """A whole tensor on every rank, one in slices, and every rank's share of a sum."""
    mine = torch.arange(comm.rank, comm.rank + 1, dtype=torch.float32) + value
    return State(
        {
            "whole": torch.full((2, 3), value),
            "sliced": Slice(mine, (comm.size,), (0,), comm.rank),
            "shared": Share(torch.tensor([value, 1.0], dtype=torch.float64), "sum"),
        },
        {"position": {"step": value}},
    )


def expect(state: State, value: float, *, ranks: int) -> None:
    assert state.tensor("whole").tolist() == [[value] * 3] * 2
    assert state.tensor("sliced").tolist() == [value + rank for rank in range(ranks)]
    assert state.tensor("shared").tolist() == [value * ranks, ranks]
    assert state.values == {"position": {"step": value}}


@pytest.mark.ranks(1, 2, 3)
def test_the_newest_copy_is_whole_on_every_rank(comm: Communicator) -> None:
    copies = Copies(comm)
    assert copies.mark == 0
    for number in range(1, 6):
        copies.write(parts(comm, float(number)), number)
        comm.barrier()
        assert copies.mark == number
        expect(copies.read(), float(number), ranks=comm.size)
    mark, state = newest_of_all(comm, {copies.mark: copies.read()})
    assert mark == 5
    expect(state, 5.0, ranks=comm.size)


@pytest.mark.ranks(2, 3)
def test_a_copy_that_a_rank_has_not_finished_does_not_count(comm: Communicator) -> None:
    copies = Copies(comm)
    copies.write(parts(comm, 1.0), 1)
    comm.barrier()
    copies.write(parts(comm, 2.0), 2)
    comm.barrier()
    if comm.rank == 1:  # as if it had died while it wrote
        next(one for one in copies._slots.values() if one.mark == 2)._finished[1] = 0
    comm.barrier()
    assert copies.mark == 1
    expect(copies.read(), 1.0, ranks=comm.size)


@pytest.mark.ranks(2, 3)
def test_a_copy_outlives_changes_of_what_it_was_made_of(comm: Communicator) -> None:
    copies = Copies(comm)
    state = parts(comm, 1.0)
    copies.write(state, 1)
    comm.barrier()
    for part in state.tensors.values():
        (part if isinstance(part, torch.Tensor) else part.values).fill_(9)
    state.values["position"]["step"] = 9
    expect(copies.read(), 1.0, ranks=comm.size)


@pytest.mark.ranks(1, 2)
def test_a_state_may_grow(comm: Communicator) -> None:
    """An optimizer has nothing before its first step."""
    copies = Copies(comm)
    copies.write(parts(comm, 1.0), 1)
    comm.barrier()
    larger = parts(comm, 2.0)
    larger.tensors["optimizer"] = torch.full((1000,), 5, dtype=torch.int64)
    copies.write(larger, 2)
    comm.barrier()
    assert copies.read().tensor("optimizer").tolist() == [5] * 1000
    copies.write(parts(comm, 3.0), 3)
    comm.barrier()
    expect(copies.read(), 3.0, ranks=comm.size)
    assert "optimizer" not in copies.read().tensors


@pytest.mark.ranks(2, 3)
def test_who_has_nothing_is_given_it(comm: Communicator) -> None:
    """A new rank, or one whose host had not finished the newest copy."""
    held = {4: State({"a": torch.ones(3)}, {"b": 1})} if comm.rank == 1 else {2: State()}
    mark, state = newest_of_all(comm, held)
    assert (mark, state.tensor("a").tolist(), state.values) == (4, [1.0] * 3, {"b": 1})


@pytest.mark.ranks(1, 2)
def test_nobody_has_anything_at_the_beginning(comm: Communicator) -> None:
    assert newest_of_all(comm, {})[0] == 0
