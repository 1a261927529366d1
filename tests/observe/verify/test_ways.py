"""Which trainings are compared, and for what none can be."""

from dataclasses import replace

import pytest

from phalanx.errors import UsageError
from phalanx.observe.verify.verification import Verdict
from phalanx.observe.verify.ways import ways_of
from phalanx.settings.table import Settings

DIGITS = Settings(dataset="digits", model="simplecnn")


def names(settings: Settings, ranks: int = 3) -> list[str]:
    return [way.name for way in ways_of(settings, ranks=ranks)]


def test_any_ranks_and_another_strategy() -> None:
    assert names(DIGITS) == [
        "1 rank, single",
        "2 ranks, central",
        "3 ranks, central",
        "2 ranks, central, then 1 rank, single",
        "1 rank, single, then 3 ranks, central",
        "3 ranks, central, then 2 ranks, allreduce",
    ]
    assert {way.settings.shards for way in ways_of(DIGITS, ranks=6)} == {6}
    assert {way.settings.shards for way in ways_of(DIGITS.changed(shards=8), ranks=3)} == {8}
    by_rank = DIGITS.changed(batch_size=None, batch_size_per_rank=8)
    assert {way.settings.batch_size for way in ways_of(by_rank, ranks=3)} == {24}


def test_a_strategy_and_its_options() -> None:
    central = ways_of(DIGITS.with_strategy("central", {"exchange": "auto"}), ranks=2)
    assert [way.settings.strategy_options for way in central] == [
        *({}, {"exchange": "auto"}, {}, {"exchange": "auto"}, {"exchange": "auto"})
    ], "single takes none"
    changes = ways_of(DIGITS.with_strategy("server", {"exchange": "changes"}), ranks=2)
    assert [way.settings.shards for way in changes] == [None] * 2, "it takes none"


def test_promises_of_strategies_without_shards() -> None:
    pipeline = ways_of(DIGITS.with_strategy("pipeline", {}), ranks=2)
    assert [(way.name, way.tolerance) for way in pipeline] == [
        ("2 ranks, pipeline", None),
        ("2 ranks, pipeline, then 2 ranks, pipeline", None),
        ("1 rank, single", 1e-4),
        ("2 ranks, pipeline, then 1 rank, single", 1e-4),
    ]
    assert names(DIGITS.with_strategy("local", {})) == [
        "3 ranks, local",
        "3 ranks, local, then 3 ranks, local",
    ]


def test_what_nobody_can_verify() -> None:
    with pytest.raises(UsageError, match="no two trainings"):
        ways_of(DIGITS.with_strategy("async", {}), ranks=2)
    with pytest.raises(UsageError, match="--scale-learning-rate linear"):
        ways_of(DIGITS.changed(scale_learning_rate="linear"), ranks=2)


def test_verdicts() -> None:
    first, *_ = ways_of(DIGITS, ranks=2)
    assert Verdict(first).holds
    assert not Verdict(first, failure="it failed").holds
    near = replace(first, tolerance=1e-4)
    assert Verdict(near, distance=1e-5).holds
    assert not Verdict(near, distance=1e-3).holds
    assert not Verdict(near).holds
