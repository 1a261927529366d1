"""What a training has come to over all its turns."""

import pytest

from phalanx.state import State
from phalanx.train.companions.turns import Turns
from phalanx.train.epoch import Epoch
from phalanx.train.metrics import Metrics


def epoch(number: int, *, samples: int, seconds: float) -> Epoch:
    return Epoch(number, Metrics(1.0, 0.5, samples), None, seconds, learning_rate=0.1)


def test_turns_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    first = Turns()
    first.test(Metrics(2.0, 0.1, 30))
    now[0] += 3
    first.begin()
    now[0] += 10
    first.after_epoch(epoch(1, samples=50, seconds=2.0))
    state = first.state()
    now[0] += 1000  # gone back on, and the time between
    second = Turns()
    second.load(state)
    now[0] += 5
    second.after_epoch(epoch(2, samples=50, seconds=3.0))
    assert (second.count, second.seconds, second.samples_per_second) == (2, 15.0, 20.0)
    assert second.test_before is not None
    assert second.test_before["loss"] == 2.0


def test_a_state_of_a_script_knows_nothing_of_turns() -> None:
    turns = Turns()
    turns.load(State())
    assert (turns.count, turns.samples_per_second) == (1, 0.0)
