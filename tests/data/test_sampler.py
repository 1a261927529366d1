"""A rank's part of a data set, for a DataLoader of one's own."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from phalanx import DistributedSampler
from phalanx.comm.base import Communicator
from phalanx.errors import UsageError


def parts(count: int, size: int, epoch: int = 0, **options: object) -> list[list[int]]:
    """What each rank gets."""
    found = []
    for rank in range(size):
        sampler = DistributedSampler(range(count), rank=rank, size=size, **options)  # type: ignore[arg-type]
        sampler.set_epoch(epoch)
        found.append(list(sampler))
        assert len(sampler) == len(found[-1])
    return found


@pytest.mark.parametrize(("count", "size"), [(12, 3), (13, 3), (14, 3), (2, 4), (1, 3), (7, 1)])
def test_uneven_samples(count: int, size: int) -> None:
    padded = parts(count, size)
    assert {len(part) for part in padded} == {-(-count // size)}
    assert {index for part in padded for index in part} == set(range(count))

    dropped = [index for part in parts(count, size, uneven="drop") for index in part]
    assert len(dropped) == len(set(dropped)) == count // size * size

    kept = parts(count, size, uneven="keep")
    assert sorted(index for part in kept for index in part) == list(range(count))
    lengths = [len(part) for part in kept]
    assert max(lengths) - min(lengths) <= 1


def test_the_order_comes_from_seed_and_epoch_alone() -> None:
    def whole(size: int, **options: int) -> list[int]:
        by_rank = parts(12, size, **options)
        return [index for turn in zip(*by_rank, strict=True) for index in turn]

    assert whole(1) == whole(2) == whole(4)
    assert whole(2, epoch=1) == whole(3, epoch=1) != whole(2)
    assert whole(2, seed=1) == whole(3, seed=1) != whole(2)


def test_without_shuffling() -> None:
    assert parts(5, 2, shuffle=False) == [[0, 2, 4], [1, 3, 0]]
    assert parts(5, 2, shuffle=False, uneven="drop") == [[0, 2], [1, 3]]
    assert parts(5, 2, shuffle=False, uneven="keep") == [[0, 2, 4], [1, 3]]


def test_an_empty_data_set() -> None:
    assert parts(0, 2, uneven="keep") == parts(0, 2, uneven="drop") == [[], []]
    with pytest.raises(UsageError, match="cannot be padded"):
        parts(0, 2)


def test_outside_of_a_job_there_is_one_rank() -> None:
    sampler = DistributedSampler(range(5))
    assert sorted(sampler) == [0, 1, 2, 3, 4]
    assert (sampler.rank, sampler.size) == (0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"uneven": "some"}, "'pad', 'drop' or 'keep', not 'some'"),
        ({"rank": 1}, "rank and size both"),
        ({"rank": 2, "size": 2}, "no rank 2 among 2"),
        ({"rank": 0, "size": 1, "seed": -1}, "seed or epoch must be 0 or more"),
    ],
)
def test_refusals(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        DistributedSampler(range(5), **options)  # type: ignore[arg-type]


@pytest.mark.ranks(3)
def test_a_loader_of_ones_own(comm: Communicator) -> None:
    """All ranks have as many batches, and together they see every sample."""
    data = TensorDataset(torch.arange(10))
    loader = DataLoader(data, batch_size=2, sampler=DistributedSampler(data))
    seen = torch.zeros(10, dtype=torch.int64)
    batches = 0
    for (batch,) in loader:
        counts = torch.bincount(batch, minlength=10)
        comm.allreduce(counts)
        seen += counts
        batches += 1
    assert batches == 2
    assert seen.min() == 1
    assert seen.sum() == 12
