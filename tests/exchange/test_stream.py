"""Sums that go on by themselves: in one order, whatever arrives first, and never for ever."""

import gc
import random
import threading

import pytest
import torch

from phalanx.comm.progress import THREAD_NAME
from phalanx.exchange.stream import Stream
from phalanx.exchange.sums import Sum


class Slow(Sum):
    """Says that it is done after some looks at it, and writes down what is called."""

    def __init__(self, number: int, turns: int, log: list[str], *, luck: random.Random) -> None:
        self.tensor = torch.zeros(1)
        self.turns = turns
        self._number, self._log, self._luck = number, log, luck
        self._looks = 0

    def _begin(self, what: str) -> None:
        self._log.append(f"{what} {self._number}")
        self._looks = self._luck.randrange(5)

    def start(self) -> None:
        self._begin("start")

    def test(self) -> bool:
        self._looks -= 1
        return self._looks < 0

    def turn(self) -> None:
        self._begin("turn")

    def finish(self) -> None:
        self._log.append(f"finish {self._number}")


def run(seed: int, *, threaded: bool) -> list[str]:
    log: list[str] = []
    luck = random.Random(seed)
    sums = [Slow(number, number % 3, log, luck=luck) for number in range(5)]
    stream = Stream(sums, threaded=threaded)
    for _ in range(2):
        for _ in range(luck.randrange(6)):
            stream.start_next()
        stream.finish()
    stream.close()
    return log


@pytest.mark.parametrize("threaded", [False, True])
def test_all_is_done_in_one_order_whatever_arrives_first(threaded: bool) -> None:
    logs = [run(seed, threaded=threaded) for seed in range(20)]
    assert all(log == logs[0] for log in logs)
    one = logs[0][: len(logs[0]) // 2]
    assert logs[0] == one * 2
    for number in range(5):
        mine = [line.split()[0] for line in one if line.endswith(str(number))]
        assert mine == ["start", *["turn"] * (number % 3), "finish"]
    assert one[:3] == ["start 0", "start 1", "start 2"]  # before the first has to be done


class Failing(Slow):
    def turn(self) -> None:
        raise ArithmeticError("what went wrong")


@pytest.mark.parametrize("threaded", [False, True])
def test_what_goes_wrong_meanwhile_is_raised_at_the_end(threaded: bool) -> None:
    sums = [Failing(0, 1, [], luck=random.Random(1)), Slow(1, 0, [], luck=random.Random(1))]
    stream = Stream(sums, threaded=threaded)
    with pytest.raises(ArithmeticError, match="what went wrong"):
        stream.finish()
    stream.close()


def test_a_stream_that_is_forgotten_takes_its_thread_with_it() -> None:
    before = set(threading.enumerate())
    stream = Stream([Slow(0, 0, [], luck=random.Random(1))], threaded=True)
    (thread,) = set(threading.enumerate()) - before
    assert thread.name == THREAD_NAME
    stream.start_next()
    stream.finish()
    assert thread.is_alive()
    del stream
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()
