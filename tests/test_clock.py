"""Phases are counted once each, and cost nothing while no clock runs."""

import time
from collections.abc import Iterator

import pytest

from phalanx import clock
from phalanx.clock import phase


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    yield
    clock.stop()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    moment = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: moment[0])
    return moment


def test_an_inner_phase_stops_the_outer_one(now: list[float]) -> None:
    running = clock.start()
    with phase("forward"):
        now[0] += 3
        with phase("exchange"):
            now[0] += 5
        now[0] += 2
    now[0] += 7
    with phase("exchange"):
        now[0] += 1
    assert running.seconds == {"forward": 5.0, "exchange": 6.0}
    assert running.elapsed == 18.0


def test_a_trace_has_every_stay(now: list[float]) -> None:
    events: list[clock.Event] = []
    clock.start(trace=events.append)
    now[0] += 1
    with phase("forward"):
        now[0] += 3
        with phase("exchange"):
            now[0] += 5
    assert events == [("exchange", 4.0, 5.0), ("forward", 1.0, 8.0)]


def test_a_phase_inside_of_itself_is_one_stay(now: list[float]) -> None:
    events: list[clock.Event] = []
    running = clock.start(trace=events.append)
    with phase("exchange"):
        now[0] += 1
        with phase("exchange"):
            now[0] += 2
        now[0] += 4
    assert (running.seconds, events) == ({"exchange": 7.0}, [("exchange", 0.0, 7.0)])


def test_an_error_leaves_its_phase(now: list[float]) -> None:
    running = clock.start()
    with pytest.raises(ValueError, match="no"), phase("load"):  # noqa: PT012
        now[0] += 1
        raise ValueError("no")
    now[0] += 9
    assert running.seconds == {"load": 1.0}


def test_without_a_clock_nothing_is_counted(now: list[float]) -> None:
    running = clock.start()
    clock.stop()
    with phase("load"):
        now[0] += 1
    assert running.seconds == {}


def test_laps(now: list[float]) -> None:
    running = clock.start()
    for seconds in (2, 3):
        with phase("forward"):
            now[0] += seconds
        assert running.lap() == {"forward": seconds}
    assert running.lap() == {"forward": 0.0}


def test_a_device_that_computes_by_itself_is_waited_for(now: list[float]) -> None:
    left = [0.0]

    def settle() -> None:
        now[0] += left.pop()
        left.append(0.0)

    running = clock.start(settle=settle)
    with phase("forward"):
        left[0] = 4.0
    with phase("backward"):
        left[0] = 9.0
    assert running.seconds == {"forward": 4.0, "backward": 9.0}
