"""What a sweep's rows say, and how long it will still take."""

from typing import Any

import pytest

from phalanx.observe.rows import row_of_result
from phalanx.observe.sweep.combinations import Combination
from phalanx.observe.sweep.estimate import Timed, UnderWay, in_words, seconds_left
from phalanx.observe.sweep.results import Outcome, plain, speed_ups, without_result
from phalanx.settings.table import Settings


def done(number: int, rate: float, **values: Any) -> Outcome:
    one = Combination(number, values, Settings(**values))
    result = {"strategy": "single", "ranks": 1, "seconds": 1.0, "samples_per_second": rate}
    return Outcome(one, row_of_result(one.folder, result), wall_seconds=2.0)


def test_speed_up_is_over_the_same_on_the_fewest_ranks() -> None:
    outcomes = [
        done(1, 100, ranks=2, hidden=(8,)),
        done(2, 50, ranks=1, hidden=(8,)),
        done(3, 30, ranks=1, hidden=(9,)),
        done(4, 33, ranks=2, hidden=(9,)),
        done(5, 33, ranks=2, hidden=(10,)),  # with nothing to compare with
    ]
    assert speed_ups(outcomes) == [2, 1, 1, pytest.approx(1.1), None]
    assert speed_ups([done(1, 5, hidden=(8,))]) == [None]


def test_rows_for_scripts() -> None:
    row, other = plain(
        [
            done(1, 100, hidden=(8, 9)),
            without_result(
                Combination(2, {"hidden": (1,)}, Settings()), "failed", short="failed", reason="why"
            ),
        ]
    )
    assert row | {"hidden": "8,9", "samples_per_second": 100, "wall_seconds": 2.0} == row
    assert (other["status"], other["reason"], other["seconds"]) == ("failed", "why", None)
    assert list(row) == list(other)


def test_what_is_to_come_lasts_as_long_as_what_has_most_in_common() -> None:
    finished = [
        Timed({"ranks": 1, "hidden": 30}, 10),
        Timed({"ranks": 1, "hidden": 300}, 100),
        Timed({"ranks": 2, "hidden": 30}, 20),
    ]
    assert seconds_left(finished, [{"ranks": 2, "hidden": 300}]) == 60  # 100 and 20
    assert seconds_left(finished, [{"ranks": 2, "hidden": 30}] * 2) == 40
    assert seconds_left(finished, []) == 0
    assert seconds_left([], [{"ranks": 1}]) is None


def test_a_training_under_way_tells_by_its_epochs() -> None:
    here = UnderWay({"ranks": 1}, epochs=10, done=4, done_before=2, seconds=8)
    assert here.seconds_left == 24
    assert seconds_left([], [{"ranks": 1}], here) == 24 + 32
    begun = UnderWay({"ranks": 1}, epochs=10, done=2, done_before=2, seconds=8)
    assert seconds_left([], [{"ranks": 1}], begun) is None
    assert seconds_left([Timed({"ranks": 1}, 50)], [{"ranks": 1}], begun) == 42 + 50


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (0.2, "about 1 s"),
        (89, "about 89 s"),
        (200, "about 3 min"),
        (9000, "about 2.5 h"),
    ],
)
def test_a_duration_in_words(seconds: float | None, words: str) -> None:
    assert in_words(seconds) == words
