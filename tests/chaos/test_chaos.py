"""A few of the faults of `make chaos`, and 200 in `make test-long`."""

from pathlib import Path

import pytest

from tests.chaos.faults import KINDS, draw
from tests.chaos.job import shown
from tests.chaos.table import rows, text
from tests.chaos.trial import Outcome, Undisturbed, try_out
from tests.chaos.writers import kill_writers
from tests.tiers import many, more_when_long

FAULTS = many(1, long=200)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return Undisturbed(tmp_path_factory.mktemp("undisturbed"))


@more_when_long
@pytest.mark.parametrize("number", range(FAULTS))
def test_a_fault(tmp_path: Path, undisturbed: Undisturbed, number: int) -> None:
    fault = draw(1, number)
    outcome = try_out(fault, tmp_path, undisturbed)
    assert outcome.problems == [], "\n".join([str(fault), *map(shown, outcome.jobs)])
    if outcome.skipped:
        pytest.skip(outcome.skipped)


@more_when_long
def test_a_training_that_is_killed_while_it_writes(tmp_path: Path) -> None:
    assert kill_writers(tmp_path, many(5, long=200), seed=1) == []


def test_faults_follow_from_a_seed() -> None:
    faults = [draw(1, number) for number in range(100)]
    assert faults == [draw(1, number) for number in range(100)]
    assert faults != [draw(2, number) for number in range(100)]
    assert {one.kind for one in faults} == set(KINDS)
    assert {len(one.strikes) for one in faults} == {0, 1, 2}
    kills = [one for one in faults if one.kind == "kill"]
    assert len(kills) > 50
    assert {one.strategy for one in kills} == {"allreduce", "central"}
    assert {strike.rank for one in kills for strike in one.strikes} == {0, 1, 2, 3}


def test_the_table_counts() -> None:
    one, other = (Outcome(draw(1, number, "kill"), same_bits=True) for number in (0, 2))
    one.seconds_lost, other.seconds_lost = [0.25], [0.75]
    other.problems, other.same_bits = ["other bits"], False
    late = Outcome(draw(1, 4, "kill"), skipped="it was over before")
    assert rows([one, other, late]) == [
        ("kill -9 of a rank, allreduce", "2", "1 of 2", "0.50 s", "0.75 s", "0", "0", "1")
    ]
    assert text(rows([one, other])).splitlines()[0].startswith("fault ")
