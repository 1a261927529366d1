import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.data.batches import Batch, batch_count, batches, cut, order
from phalanx.data.split import Split
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
    (batch,) = batches(numbered(3), batch_size=4, seed=0, epoch=0, dtype=torch.float64)
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
