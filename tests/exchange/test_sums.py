"""In which order sums start, turn and finish, without ranks."""

import torch

from phalanx.exchange.sums import Sum, Sums


class Recorded(Sum):
    """Writes down what is asked of it; `done` says whether what was begun last is."""

    needs_progress = True

    def __init__(self, name: str, log: list[str]) -> None:
        self.tensor = torch.ones(2)
        self.done = False
        self._name, self._log = name, log

    def start(self) -> None:
        self.done = False
        self._log.append(f"start {self._name}")

    def test(self) -> bool:
        return self.done

    def turn(self) -> None:
        self.done = False
        self._log.append(f"turn {self._name}")

    def finish(self) -> None:
        self._log.append(f"finish {self._name}")


def make_sums() -> tuple[Sums, list[Recorded], list[str]]:
    log: list[str] = []
    both = [Recorded("a", log), Recorded("b", log)]
    return Sums(both), both, log


def test_no_second_half_begins_before_all_first_ones() -> None:
    """However early a first half is done: the other ranks may not know yet."""
    sums, (first, second), log = make_sums()
    assert sums.test()
    assert sums.start_next(), "MPI has work"
    assert not sums.test()
    first.done = True
    assert sums.test()
    assert not sums.start_next(), "behind the last one somebody waits, and calls MPI"
    assert not sums.test()
    assert log == ["start a", "start b", "turn a"]
    second.done = True
    assert not sums.test()
    assert log[3:] == ["turn b"]
    assert (sums.steps, sums.started, sums.started_ever) == (1, 2, 2)
    first.done = second.done = True
    assert sums.test()
    assert log[4:] == ["finish a", "finish b"]
    assert (sums.steps, sums.started, sums.started_ever) == (1, 0, 2)


def test_finish_does_the_rest() -> None:
    sums, (first, _), log = make_sums()
    whole = ["start a", "start b", "turn a", "turn b", "finish a", "finish b"]
    sums.finish()
    assert log == whole
    log.clear()
    sums.start_next()
    sums.start_next()
    first.done = True
    assert not sums.test()
    sums.finish()
    assert log == whole
    assert (sums.steps, sums.started_ever) == (2, 4)


def test_zeros_of_a_rank_that_has_nothing_to_bring() -> None:
    sums, (first, second), _ = make_sums()
    sums.start_next_with_zeros()
    assert first.tensor.tolist() == [0.0, 0.0]
    assert second.tensor.tolist() == [1.0, 1.0]
    assert sums.tensors == [first.tensor, second.tensor]
    assert (sums.steps, sums.started) == (1, 1)


def test_nothing_to_sum() -> None:
    sums = Sums([])
    assert sums.test()
    sums.finish()
    assert (sums.steps, sums.started_ever) == (0, 0)
