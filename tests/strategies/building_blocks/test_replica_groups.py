"""Ranks in a table: a row for each replica, a column for each part of the model."""

import pytest
import torch

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError
from phalanx.strategies.building_blocks.replica_groups import arrange_replicas


def test_one_rank_is_one_replica() -> None:
    groups = arrange_replicas(SingleCommunicator(), 1)
    assert (groups.replica, groups.replicas) == (0, 1)
    assert (groups.members.size, groups.peers.size) == (1, 1)


@pytest.mark.ranks(4)
@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_ranks_of_a_replica_are_consecutive(comm: Communicator, replicas: int) -> None:
    groups = arrange_replicas(comm, replicas)
    parts = comm.size // replicas
    assert (groups.replica, groups.replicas) == (comm.rank // parts, replicas)
    assert groups.members.allgather_objects(comm.rank) == [
        groups.replica * parts + part for part in range(parts)
    ]
    assert groups.peers.allgather_objects(comm.rank) == list(
        range(comm.rank % parts, comm.size, parts)
    )
    assert groups.members.rank == comm.rank % parts
    assert groups.peers.rank == groups.replica
    ones = torch.ones(1)
    groups.members.allreduce(ones)
    groups.peers.allreduce(ones)
    assert ones.item() == comm.size


@pytest.mark.ranks(3)
@pytest.mark.parametrize(("replicas", "message"), [(2, "can be 1, 3 here"), (0, "at least 1")])
def test_ranks_that_do_not_divide(comm: Communicator, replicas: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        arrange_replicas(comm, replicas)
