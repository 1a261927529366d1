"""What a training process sets for itself."""

import os

import pytest

from phalanx.comm.launch.process import available_cores, keep_freed_memory, threads_per_rank
from phalanx.errors import UsageError


def test_allocator_is_set_unless_the_user_did(monkeypatch: pytest.MonkeyPatch) -> None:
    assert keep_freed_memory()
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"):
        monkeypatch.setenv(name, "131072")
    assert not keep_freed_memory()


@pytest.mark.parametrize(
    ("ranks", "threads"),
    [
        ([{"0", "1"}, {"0", "1"}], 1),  # unbound: shared evenly
        ([{"0"}, {"1"}], 1),  # bound: each its own
        ([{"0", "1"}, {"2", "3"}], 2),
        ([{"0", "1", "2", "3"}], 4),
        ([{"0"}, {"0"}, {"0"}], 1),  # more ranks than cores
    ],
)
def test_threads_are_cores_divided_by_ranks(
    ranks: list[set[str]], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert threads_per_rank(None, lambda _: [frozenset(rank) for rank in ranks]) == threads


def test_a_flag_and_a_users_variable_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads_per_rank(None, lambda mine: [mine]) is None
    assert threads_per_rank(5, lambda mine: [mine]) == 5
    with pytest.raises(UsageError, match="from 1 to below 4096, not 0"):
        threads_per_rank(0, lambda mine: [mine])


def test_cores_are_those_this_process_may_use() -> None:
    assert 1 <= available_cores() <= len(os.sched_getaffinity(0))
