"""Samples that come one after the other."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from phalanx.data.own.stream import Stream
from phalanx.errors import UsageError


class Counting(IterableDataset[Tensor]):
    """So many numbers, with noise in them from the epoch's generator."""

    def __init__(self, count: int = 11) -> None:
        self.count = count
        self.epochs: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)

    def __iter__(self) -> Iterator[Tensor]:
        shift = random.random()
        for number in range(self.count):
            yield torch.tensor([float(number), shift, float(torch.rand(()))])


def epoch_of(
    dataset: Any, *, seen: int = 0, batch_size: int = 4, epoch: int = 0, seed: int = 3
) -> list[Tensor]:
    stream = Stream(dataset, whole=True)
    found = stream.batches(batch_size=batch_size, seed=seed, epoch=epoch, seen=seen)
    return [batch.whole().inputs.value for batch in found]


def test_every_sample_comes_once_and_in_order() -> None:
    batches = epoch_of(Counting())
    assert [len(one) for one in batches] == [4, 4, 3]
    assert torch.cat(batches)[:, 0].tolist() == list(range(11))


def test_noise_is_by_seed_and_epoch() -> None:
    first = torch.cat(epoch_of(Counting()))
    assert len(set(first[:, 2].tolist())) == 11
    random.seed(8)
    torch.manual_seed(8)
    again = torch.cat(epoch_of(Counting(), batch_size=3))
    assert torch.equal(first, again)
    for other in (epoch_of(Counting(), epoch=1), epoch_of(Counting(), seed=4)):
        assert not torch.equal(torch.cat(other)[:, 1], first[:, 1])
        assert not torch.equal(torch.cat(other)[:, 2], first[:, 2])


def test_it_goes_on_behind_what_was_seen() -> None:
    whole = torch.cat(epoch_of(Counting()))
    rest = torch.cat(epoch_of(Counting(), seen=5))
    assert torch.equal(rest, whole[5:])
    assert epoch_of(Counting(), seen=11) == []


def test_one_that_has_become_shorter_is_refused() -> None:
    with pytest.raises(UsageError, match="ends before the 12 samples that this epoch has seen"):
        epoch_of(Counting(), seen=12)


def test_it_is_told_the_epoch() -> None:
    dataset = Counting()
    epoch_of(dataset)
    epoch_of(dataset, epoch=5)
    assert dataset.epochs == [0, 5]


def test_the_process_keeps_its_random_numbers() -> None:
    before = torch.get_rng_state(), random.getstate()
    epoch_of(Counting())
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]


def test_steps_are_counted_on() -> None:
    stream = Stream(Counting(), whole=True)
    found = stream.batches(batch_size=4, seed=0, epoch=1, seen=4, step=7)
    assert [batch.step for batch in found] == [7, 8]


def test_samples_are_collated_by_parts() -> None:
    stream = Stream(Counting(), collate=torch.stack, whole=True)
    (batch,) = stream.batches(batch_size=11, seed=0, epoch=0)
    parts = [batch.part(index, of=3).inputs.value for index in range(3)]
    assert [len(part) for part in parts] == [4, 4, 3]
    assert torch.cat(parts)[:, 0].tolist() == list(range(11))
