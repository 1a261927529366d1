"""A comparison under way, with trainings that are only said to have happened."""

from collections.abc import Callable
from pathlib import Path

import pytest

from phalanx.observe import comparison as module
from phalanx.observe.comparison import Comparison
from phalanx.observe.plan import Planned, plan
from phalanx.observe.rows import Row, row_of_result, row_without_result
from phalanx.observe.training import run_training
from phalanx.settings.table import Settings

Train = Callable[[Planned, Path], Row]


def planned(*names: str, ranks: int = 2) -> list[Planned]:
    return plan(Settings(), names, ranks=ranks)


def make(
    monkeypatch: pytest.MonkeyPatch, train: Train, *names: str, repeats: int = 1
) -> Comparison:
    monkeypatch.setattr(module, "run_training", train)
    return Comparison(planned(*names), repeats=repeats, tell=lambda text: None)


def done(one: Planned, seconds: float) -> Row:
    result = {"strategy": one.strategy, "seconds": seconds, "samples_per_second": 100 / seconds}
    return row_of_result(one.title, result)


def test_repeats_go_in_rounds_and_the_best_time_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([3.0, 8.0, 2.0, 9.0, 4.0, 7.0])
    folders: list[str] = []

    def train(one: Planned, folder: Path) -> Row:
        folders.append(folder.name)
        return done(one, next(times))

    comparison = make(monkeypatch, train, "central", "allreduce", repeats=3)
    comparison.run(Path("kept"))
    assert folders[:3] == ["01-central-repeat-1", "02-allreduce-repeat-1", "01-central-repeat-2"]
    assert [row.seconds for row in comparison.rows] == [2.0, 7.0]
    assert not comparison.failed


def test_a_failure_is_a_row_is_not_repeated_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trained: list[str] = []

    def train(one: Planned, folder: Path) -> Row:
        trained.append(one.strategy)
        if one.strategy == "central":
            return row_without_result(one, "failed", short="failed", reason="the moon")
        return done(one, 1.0)

    comparison = make(monkeypatch, train, "central", "allreduce", repeats=2)
    comparison.run(Path("kept"))
    assert trained == ["central", "allreduce", "allreduce"]
    assert [row.status for row in comparison.rows] == ["failed", "done"]
    assert comparison.failed


def test_a_refusal_known_beforehand_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "run_training", lambda one, folder: done(one, 1.0))
    said: list[str] = []
    comparison = Comparison(planned("allreduce", "server", ranks=1), repeats=1, tell=said.append)
    comparison.run(Path("kept"))
    assert [row.short for row in comparison.rows] == ["", "needs 2 ranks"]
    assert not comparison.failed
    assert said == [
        "[2/2] server: needs 2 ranks",
        "[1/2] allreduce: training …",
        "[1/2] allreduce: 1.00 s, 100 samples/s",
    ]


def test_after_an_interruption_there_is_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(one: Planned, folder: Path) -> Row:
        if one.strategy == "allreduce":
            raise KeyboardInterrupt
        return done(one, 1.0)

    comparison = make(monkeypatch, train, "central", "allreduce", "local")
    with pytest.raises(KeyboardInterrupt):
        comparison.run(Path("kept"))
    assert [row.status for row in comparison.rows] == ["done", "interrupted", "interrupted"]


@pytest.mark.parametrize(
    ("script", "status", "reason"),
    [
        ("echo Traceback; echo 'rank 1 of 2: KeyError: 7'; exit 1", "failed", "KeyError: 7"),
        ("echo 'UsageError: not this model'; exit 2", "refused", "UsageError: not this model"),
        ("echo 'Segmentation fault'; kill -SEGV $$", "failed", "ended by signal 11: Segmentation"),
        ("exit 5", "failed", "exit code 5"),
        ("exit 0", "failed", "has no result.json"),
    ],
)
def test_why_a_training_came_to_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, status: str, reason: str
) -> None:
    monkeypatch.setattr(
        "phalanx.observe.training.command", lambda flags: ["bash", "-c", script, "bash"]
    )
    folder = tmp_path / "01-allreduce"
    folder.mkdir()
    row = run_training(planned("allreduce")[0], folder)
    assert row.status == status
    assert reason in row.reason
    assert (tmp_path / "01-allreduce.log").exists()
    assert ("phalanx train" in row.reason) == (script != "exit 0")
