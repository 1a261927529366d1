"""Who is to blame for a stall, as far as one can tell from how the ranks are."""

import pytest

from phalanx.comm.watch.blame import Condition, Standing, to_blame

STOPPED, SILENT, BLOCKED, BUSY, WAITING, OVER = Condition
LIMIT = 60.0


def blamed(*ranks: tuple[Condition, float]) -> list[int] | None:
    standings = [
        Standing(rank, 100 + rank, condition, idle) for rank, (condition, idle) in enumerate(ranks)
    ]
    found = to_blame(standings, after=LIMIT)
    return None if found is None else [one.rank for one in found]


def test_who_does_not_wait_is_to_blame() -> None:
    assert blamed((WAITING, 61), (BUSY, 60), (WAITING, 62)) == [1]


@pytest.mark.parametrize("condition", [STOPPED, SILENT, BLOCKED, BUSY])
def test_whatever_it_does_instead(condition: Condition) -> None:
    assert blamed((WAITING, 60), (condition, 60)) == [1]


def test_several_may_be() -> None:
    assert blamed((BUSY, 70), (BUSY, 60), (WAITING, 62)) == [0, 1]


def test_others_need_not_wait_for_it() -> None:
    """As under `async`, where they go on."""
    assert blamed((BUSY, 1), (STOPPED, 60), (WAITING, 1)) == [1]


def test_one_that_is_stopped_accounts_for_one_that_seems_busy() -> None:
    """It may wait for the other in a way that we do not know."""
    assert blamed((BUSY, 80), (BLOCKED, 61), (STOPPED, 60)) == [2]
    assert blamed((BUSY, 80), (BLOCKED, 61), (SILENT, 60)) == [2]
    assert blamed((BUSY, 80), (BLOCKED, 61), (STOPPED, 59)) == [1]


def test_nobody_before_its_time() -> None:
    assert blamed((WAITING, 59), (BUSY, 59.9)) is None
    assert blamed((WAITING, 1000), (BUSY, 1)) is None


def test_those_that_have_ended_are_not() -> None:
    assert blamed((OVER, 500), (WAITING, 1)) is None
    assert blamed((OVER, 500), (OVER, 500)) is None
    assert blamed((OVER, 500), (BUSY, 60)) == [1]


def test_if_all_wait_then_nobody_here_and_not_at_once() -> None:
    """Whoever they wait for may be on another host, which should speak first."""
    assert blamed((WAITING, 60), (WAITING, 70)) is None
    assert blamed((WAITING, 76), (WAITING, 74)) is None
    assert blamed((WAITING, 76), (WAITING, 75)) == []
