from concurrent.futures import Future
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from phalanx.comm.single import SingleCommunicator
from phalanx.data.batches import Batch, batch_count, batches, cut, linked, order
from phalanx.data.loading.pool import Reader
from phalanx.data.own.collected import Collected
from phalanx.data.split import Split
from phalanx.data.transforms import Draw
from phalanx.errors import UsageError


def numbered(count: int) -> Split:
    return Split(torch.arange(count)[:, None], torch.arange(count))


@given(count=st.integers(0, 200), parts=st.integers(1, 40))
def test_cut_covers_everything_evenly(count: int, parts: int) -> None:
    slices = cut(count, parts)
    sizes = [piece.stop - piece.start for piece in slices]
    assert [index for piece in slices for index in range(count)[piece]] == list(range(count))
    assert len(slices) == parts
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1


def test_cut_with_fewer_things_than_parts() -> None:
    assert cut(2, 4) == [slice(0, 1), slice(1, 2), slice(2, 2), slice(2, 2)]


@settings(deadline=None)
@given(
    count=st.integers(0, 60),
    batch_size=st.integers(1, 70),
    parts=st.integers(1, 9),
    shuffle=st.booleans(),
)
def test_every_sample_is_used_once(count: int, batch_size: int, parts: int, shuffle: bool) -> None:
    epoch = list(batches(numbered(count), batch_size=batch_size, seed=1, epoch=2, shuffle=shuffle))
    used = [
        int(target)
        for batch in epoch
        for index in range(parts)
        for target in batch.part(index, parts).targets
    ]
    assert sorted(used) == list(range(count))
    assert len(epoch) == batch_count(count, batch_size)
    assert all(batch.size == batch_size for batch in epoch[:-1])
    assert used == [int(target) for batch in epoch for target in batch.whole().targets]
    if not shuffle:
        assert used == list(range(count))


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    first = order(100, seed=5, epoch=0)
    torch.manual_seed(1)
    assert torch.equal(first, order(100, seed=5, epoch=0))
    assert not torch.equal(first, order(100, seed=5, epoch=1))
    assert not torch.equal(first, order(100, seed=6, epoch=0))


def test_the_order_stays_the_same_between_releases() -> None:
    assert order(8, seed=7, epoch=3).tolist() == [3, 5, 0, 4, 2, 7, 1, 6]


def test_batches_bring_inputs_of_the_type_asked_for() -> None:
    split = Split(torch.arange(3)[:, None], torch.arange(3), scale=1.0)
    (batch,) = batches(split, batch_size=4, seed=0, epoch=0, dtype=torch.float64)
    assert batch.whole().inputs.dtype == torch.float64
    assert batch.part(0, 2).inputs.shape == (2, 1)


@pytest.mark.parametrize("batch_size", [0, -3])
def test_a_batch_size_below_one_is_refused_at_once(batch_size: int) -> None:
    with pytest.raises(UsageError, match=f"1 or more, got {batch_size}"):
        batches(numbered(3), batch_size=batch_size, seed=0, epoch=0)


@pytest.mark.parametrize(("seed", "epoch"), [(-1, 0), (0, -1)])
def test_negative_seeds_and_epochs_are_refused(seed: int, epoch: int) -> None:
    with pytest.raises(UsageError, match="0 or more, got -1"):
        order(3, seed=seed, epoch=epoch)


@pytest.mark.parametrize(("index", "of"), [(2, 2), (-1, 2), (0, 0)])
def test_a_part_outside_the_cut_is_refused(index: int, of: int) -> None:
    with pytest.raises(UsageError, match=f"got {index}"):
        Batch(numbered(4), torch.arange(4)).part(index, of)


def test_a_cut_in_no_parts_is_refused() -> None:
    with pytest.raises(UsageError, match="1 part or more, got 0"):
        cut(4, 0)


class Recorded:
    """In place of workers: notes what is asked for, and has it read at once."""

    def __init__(self, ahead: int) -> None:
        self._ahead, self.asked = ahead, list[list[int]]()

    def reader(self, dataset: Any, collate: Any) -> Reader:
        def ask(indices: Tensor, _draw: Draw) -> "Future[Any]":
            self.asked.append(indices.tolist())
            future: Future[Any] = Future()
            future.set_result(collate([dataset[one] for one in indices.tolist()]))
            return future

        return Reader(self._ahead, ask)


def recorded(count: int, *, ahead: int) -> tuple[Collected, Recorded]:
    workers: Any = Recorded(ahead)
    data = [(torch.tensor([one]), one) for one in range(count)]
    return Collected(data, workers=workers), workers


def test_a_part_of_the_batches_that_follow_is_asked_for_before_anybody_waits() -> None:
    source, workers = recorded(10, ahead=2)
    epoch = batches(source, batch_size=2, seed=0, epoch=0, shuffle=False)
    assert next(epoch).part(1, of=2).targets.tolist() == [1]
    assert workers.asked == [[1], [3], [5]]
    assert [batch.part(1, of=2).targets.tolist() for batch in epoch] == [[3], [5], [7], [9]]
    assert workers.asked == [[1], [3], [5], [7], [9]]  # each once


def test_nothing_is_asked_for_behind_the_last_batch_that_is_wanted() -> None:
    source, workers = recorded(10, ahead=4)
    epoch = list(batches(source, batch_size=2, seed=0, epoch=0, shuffle=False, most=2))
    assert [batch.whole().targets.tolist() for batch in epoch] == [[0, 1], [2, 3]]
    assert workers.asked == [[0, 1], [2, 3]]


def test_empty_parts_are_not_asked_for() -> None:
    source, workers = recorded(1, ahead=4)
    (batch,) = batches(source, batch_size=2, seed=0, epoch=0)
    assert len(batch.part(1, of=2).targets) == 0
    assert workers.asked == []


def test_what_was_read_to_weigh_a_batch_is_not_read_again() -> None:
    source, workers = recorded(8, ahead=1)
    for batch in batches(source, batch_size=4, seed=0, epoch=0, shuffle=False):
        batch.agree_on_weight(SingleCommunicator(), lambda targets: float(len(targets)), pieces=2)
        assert batch.weight(lambda _: 0.0) == 4
        assert [len(batch.part(part, of=2).targets) for part in (0, 1)] == [2, 2]
    assert sorted(workers.asked) == [[0, 1], [2, 3], [4, 5], [6, 7]]


@settings(deadline=None)
@given(count=st.integers(0, 6), ahead=st.integers(0, 4))
def test_linked_batches_know_as_many_as_are_asked_for_ahead(count: int, ahead: int) -> None:
    split = numbered(count)
    one_by_one = (Batch(split, torch.tensor([number])) for number in range(count))
    found = 0
    for batch in linked(one_by_one, ahead=ahead):
        following, known = batch.following, 0
        while following is not None:
            following, known = following.following, known + 1
        assert known == min(ahead, count - found - 1)
        found += 1
    assert found == count
