"""Objects, smaller communicators, and what every communicator refuses."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from phalanx.comm.base import Communicator
from phalanx.errors import UsageError

pytestmark = pytest.mark.ranks(1, 2, 4)


def test_objects(world: Communicator) -> None:
    last = world.size - 1
    assert world.broadcast_object({"from": world.rank}, last) == {"from": last}
    everyone = list(range(world.size))
    assert world.gather_objects(world.rank, last) == (everyone if world.rank == last else None)
    assert world.allgather_objects(world.rank) == everyone


def test_barrier(world: Communicator, do: Callable[..., None], shared_path: Path) -> None:
    """Nobody leaves before the last one has come, whoever that is."""
    for late in range(world.size):
        if world.rank == late:
            time.sleep(0.05)
            (shared_path / f"{late} is here").touch()
        do("barrier")
        assert (shared_path / f"{late} is here").exists()


def test_split(world: Communicator) -> None:
    half = world.split(world.rank % 2, -world.rank)
    mates = [rank for rank in range(world.size) if rank % 2 == world.rank % 2][::-1]
    assert (half.rank, half.size) == (mates.index(world.rank), len(mates))
    total = torch.tensor([world.rank])
    half.allreduce(total)
    assert total.item() == sum(mates)
    assert type(half) is type(world)
    half.free()


def test_host(world: Communicator) -> None:
    host = world.host()
    assert (host.rank, host.size) == (world.rank, world.size)
    assert type(host) is type(world)
    host.free()


class TestRefusals:
    """What cannot work is refused on every rank, and nothing is lost by it."""

    @pytest.mark.parametrize(
        ("buffer", "reason"),
        [
            (torch.zeros(4, 4).t()[:2], "not contiguous"),
            (torch.zeros(4, device="meta"), "CPU memory"),
            (torch.zeros(2).to_sparse(), "not contiguous"),
            (np.zeros((4, 4))[:, 1], "not contiguous"),
            (np.broadcast_to(np.zeros(1), (1,)), "read-only"),
            (np.zeros(2, dtype=">f4"), "dtype"),
            (np.array(["a"]), "dtype"),
            (torch.zeros(2, dtype=torch.float8_e5m2), "dtype"),
            ([1.0, 2.0], "not list"),
            (None, "missing"),
        ],
    )
    def test_buffers(self, world: Communicator, buffer: Any, reason: str) -> None:
        with pytest.raises(UsageError, match=reason):
            world.allreduce(buffer)
        with pytest.raises(UsageError, match=reason):
            world.ibroadcast(buffer)
        self.works(world)

    def test_arguments(self, world: Communicator) -> None:
        row, whole = torch.zeros(1), torch.zeros(world.size)
        with pytest.raises(UsageError, match=f"no rank {world.size} among"):
            world.broadcast(row, world.size)
        with pytest.raises(UsageError, match="unknown op 'mean'; known: sum, product"):
            world.allreduce(row, "mean")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="have no order"):
            world.allreduce(torch.zeros(1, dtype=torch.complex64), "minimum")
        with pytest.raises(UsageError, match="add up to"):
            world.allgather(row, whole, counts=[2] * world.size)
        with pytest.raises(UsageError, match="numbers"):
            world.allgather(row, whole, counts=[1] * (world.size + 1))
        with pytest.raises(UsageError, match=r"float32.*int64"):
            world.allgather(row, whole.long())
        with pytest.raises(UsageError, match="part of"):
            world.allgather(torch.zeros(3), whole)
        self.works(world)

    @pytest.mark.ranks(2, 3)
    @pytest.mark.parametrize("kind", ["mpi", "checked"], indirect=True)
    def test_parts_that_are_not_equal(self, world: Communicator) -> None:
        with pytest.raises(UsageError, match="give counts"):
            world.allgather(torch.zeros(1), torch.zeros(world.size + 1))
        with pytest.raises(UsageError, match="no rank -1"):
            world.send(torch.zeros(1), -1)
        self.works(world)

    def works(self, world: Communicator) -> None:
        total = torch.ones(1)
        world.allreduce(total)
        assert total.item() == world.size


@pytest.mark.ranks(1)
@pytest.mark.parametrize("kind", ["single"], indirect=True)
def test_a_single_rank_has_nobody_to_talk_to(world: Communicator) -> None:
    with pytest.raises(UsageError, match="nobody"):
        world.send(torch.zeros(1), 0)
    with pytest.raises(UsageError, match="nobody"):
        world.ireceive(torch.zeros(1), 0)
