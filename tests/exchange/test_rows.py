"""Rows that are added up slice by slice."""

import pytest
import torch

from phalanx.comm.single import SingleCommunicator
from phalanx.exchange.rows import EveryRowSum, RowSum, SmallSum, slice_of_rank

#: Around cache lines and tiles.
LENGTHS = (0, 1, 63, 64, 65, 1000, 32768, 100_003)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_slices_cover_everything_once_and_end_between_cache_lines(length: int, ranks: int) -> None:
    slices = [slice_of_rank(length, rank, of=ranks) for rank in range(ranks)]
    covered = [index for one in slices for index in range(length)[one]]
    assert covered == list(range(length))
    assert all(one.stop % 64 == 0 or one.stop == length for one in slices)


def make_rows(count: int, length: int) -> torch.Tensor:
    return torch.randint(100, (count, length), generator=torch.Generator().manual_seed(1)).double()


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_first_row_becomes_the_sum(length: int, ranks: int) -> None:
    rows = make_rows(ranks, length)
    before = rows.clone()
    for rank in range(ranks):
        RowSum(rows, slice_of_rank(length, rank, of=ranks)).add_up()
    assert torch.equal(rows[0], before.sum(0))
    assert torch.equal(rows[1:], before[1:])


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("divisor", [1.0, 3.0])
def test_every_row_becomes_the_sum(length: int, ranks: int, divisor: float) -> None:
    rows = make_rows(ranks, length)
    expected = rows.sum(0) / divisor
    for rank in range(ranks):
        slice_ = slice_of_rank(length, rank, of=ranks)
        EveryRowSum(rows, slice_, divisor=divisor).add_up()
    assert all(torch.equal(row, expected) for row in rows)


def test_a_small_sum_leaves_what_was_brought() -> None:
    rows = torch.tensor([[0.0, 0.0], [1.0, 2.0]])
    SmallSum(SingleCommunicator(), rows).add_up()
    assert rows.tolist() == [[1.0, 2.0], [1.0, 2.0]]
