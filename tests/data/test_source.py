import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import final

import numpy as np
import pytest
import torch
from torch import Tensor

from phalanx.data.batches import Batch, batches
from phalanx.data.rows import RowFile, Rows
from phalanx.data.source import Source
from phalanx.data.split import Split, hold_out
from phalanx.errors import DataError, UsageError


@final
class Numbers(Source):
    """Sample i is i; tells what was taken, and where."""

    shape = (1,)

    def __init__(self, count: int) -> None:
        self._count = count
        self.taken: list[tuple[list[int], bool]] = []

    def __len__(self) -> int:
        return self._count

    def take(self, indices: Tensor) -> Tensor:
        if 99 in indices:
            raise DataError("sample 99 is damaged")
        in_main = threading.current_thread() is threading.main_thread()
        self.taken.append((indices.tolist(), in_main))
        return indices[:, None].float()


def numbers(count: int) -> tuple[Split, Numbers]:
    source = Numbers(count)
    return Split(source, torch.arange(count)), source


@pytest.fixture
def fetches_take(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Has the clock go on by so many seconds from one look to the next."""

    def take(seconds: float) -> None:
        now = iter(seconds * look for look in range(1_000_000))
        clock = SimpleNamespace(perf_counter=lambda: next(now))
        monkeypatch.setattr("phalanx.data.loading.thread.time", clock)

    return take


def test_what_takes_a_while_is_fetched_in_a_thread(fetches_take: Callable[[float], None]) -> None:
    fetches_take(0.01)
    split, source = numbers(20)
    for batch in batches(split, batch_size=4, seed=0, epoch=0, shuffle=False):
        batch.part(1, of=2)
    # Two have to be slow before that is known, and the third was not asked for by then. The thread
    # may be done with the fourth before this one is with the third.
    taken = sorted((indices[0], in_main) for indices, in_main in source.taken)
    assert taken == [(2, True), (6, True), (10, True), (14, False), (18, False)]


def test_what_is_quick_is_fetched_where_it_is_needed(
    fetches_take: Callable[[float], None],
) -> None:
    fetches_take(0.0001)
    split, source = numbers(96)
    for batch in batches(split, batch_size=4, seed=0, epoch=0, shuffle=False):
        batch.whole()
    fetches_take(10.0)  # a mishap
    split.take(torch.arange(4))
    fetches_take(0.0001)
    for batch in batches(split, batch_size=4, seed=0, epoch=1, shuffle=False):
        batch.whole()
    assert all(in_main for _, in_main in source.taken)


def test_the_same_part_of_the_next_batch_is_fetched_meanwhile(
    fetches_take: Callable[[float], None],
) -> None:
    fetches_take(0.01)
    split, source = numbers(10)
    split.fetch(torch.arange(1))
    split.fetch(torch.arange(1))
    source.taken.clear()
    seen = []
    for batch in batches(split, batch_size=4, seed=0, epoch=0, shuffle=False):
        samples = batch.part(1, of=2)
        assert torch.equal(samples.inputs[:, 0].long(), samples.targets)
        seen.append(samples.targets.tolist())
    assert seen == [[2, 3], [6, 7], [9]]
    assert source.taken == [([2, 3], False), ([6, 7], False), ([9], False)]


def test_several_parts_are_fetched_for_a_rank_that_has_several(
    fetches_take: Callable[[float], None],
) -> None:
    fetches_take(0.01)
    split, source = numbers(8)
    split.fetch(torch.arange(1))
    split.fetch(torch.arange(1))
    source.taken.clear()
    for batch in batches(split, batch_size=4, seed=0, epoch=0, shuffle=False):
        assert [batch.part(part, of=4).targets.tolist() for part in (0, 1)] == [
            [int(batch.indices[0])],
            [int(batch.indices[1])],
        ]
    assert [indices for indices, _ in source.taken] == [[0], [4], [1], [5]]


def test_parts_may_be_cut_otherwise_in_the_next_batch() -> None:
    split, _ = numbers(8)
    first, second = batches(split, batch_size=4, seed=0, epoch=0, shuffle=False)
    first.part(0, of=2)
    assert second.whole().targets.tolist() == [4, 5, 6, 7]
    assert second.part(0, of=2).targets.tolist() == [4, 5]
    assert second.part(0, of=2).targets.tolist() == [4, 5]


def test_an_error_of_the_thread_is_raised_where_the_samples_are_taken(
    fetches_take: Callable[[float], None],
) -> None:
    fetches_take(0.01)
    split, _ = numbers(100)
    split.fetch(torch.arange(1))
    split.fetch(torch.arange(1))
    *_, before, last = batches(split, batch_size=10, seed=0, epoch=0, shuffle=False)
    before.part(1, of=2)
    assert last.part(0, of=2).targets.tolist() == [90, 91, 92, 93, 94]
    with pytest.raises(DataError, match="sample 99"):
        last.part(1, of=2)


def test_samples_in_memory_are_not_fetched_ahead() -> None:
    split = Split(torch.zeros(4, 1), torch.zeros(4))
    first, _ = batches(split, batch_size=2, seed=0, epoch=0)
    assert first.following is None


def test_a_split_of_a_source_says_that_it_is_not_in_memory() -> None:
    split, source = numbers(4)
    assert split.source is source
    assert split.input_shape == (1,)
    with pytest.raises(UsageError, match="not in memory"):
        _ = split.inputs


def test_subsets_of_subsets_reach_the_right_samples() -> None:
    split, source = numbers(100)
    kept, held = hold_out(split, 0.25, seed=1)
    assert held is not None
    again = held.subset(torch.tensor([3, 0]))
    samples = again.take(torch.tensor([1, 0]))
    assert samples.targets.tolist() == [int(held.targets[0]), int(held.targets[3])]
    assert torch.equal(samples.inputs[:, 0].long(), samples.targets)
    assert len(kept) == 75
    assert source.taken[-1][0] == samples.targets.tolist()


def rows(folder: Path, *, padding: int = 0, dtype: str = "<f4") -> tuple[Rows, Tensor]:
    """Two files of rows [2, 3], with some bytes before the first and between any two."""
    files, values = [], []
    for number, count in enumerate((3, 4)):
        content = (np.arange(count * 6) + 100 * number).astype(dtype).reshape(count, 2, 3)
        path = folder / f"rows-{number}"
        path.write_bytes(b"head" + b"".join(row.tobytes() + b"-" * padding for row in content))
        stride = content[0].nbytes + padding
        files.append(RowFile(path, count, start=4, stride=stride))
        values.append(content.astype("f8"))
    tensor = torch.from_numpy(np.concatenate(values))
    return Rows(files, shape=(2, 3), dtype=np.dtype(dtype)), tensor


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "|u1", "<u2", ">i8"])
def test_rows_are_read_from_where_they_are(tmp_path: Path, dtype: str, padding: int) -> None:
    source, values = rows(tmp_path, dtype=dtype, padding=padding)
    assert len(source) == 7
    for indices in ([0, 1, 2, 3, 4, 5, 6], [6, 2, 3, 3, 0], [2], []):
        wanted = torch.tensor(indices, dtype=torch.int64)
        assert torch.equal(source.take(wanted).double(), values[wanted])


def test_a_file_that_was_cut_short_meanwhile_is_named(tmp_path: Path) -> None:
    source, _ = rows(tmp_path)
    with (tmp_path / "rows-1").open("r+b") as file:
        file.truncate(4 + 24 * 2 + 5)
    assert len(source.take(torch.tensor([3, 4]))) == 2
    with pytest.raises(DataError, match="rows-1: ends inside sample 2"):
        source.take(torch.tensor([3, 4, 5]))


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="gone: cannot be read: No such file"):
        Rows([RowFile(tmp_path / "gone", 1, 0, 1)], shape=(), dtype=np.dtype("u1"))


def test_a_batch_of_a_source_needs_no_other_batch() -> None:
    split, source = numbers(4)
    assert Batch(split, torch.tensor([2, 1])).whole().targets.tolist() == [2, 1]
    assert [indices for indices, _ in source.taken] == [[2, 1]]
