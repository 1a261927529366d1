"""The trainings of a sweep, before any of them starts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from phalanx.errors import RunError, UsageError
from phalanx.observe.sweep.axes import Axis
from phalanx.observe.sweep.combinations import Combination, check_refusals, combine
from phalanx.observe.sweep.folder import (
    check_folder,
    difference,
    free_folder,
    read_asked,
    skips_refused,
    write_asked,
)
from phalanx.settings.files import read_settings

RANKS, HIDDEN = Axis("ranks", (1, 2)), Axis("hidden", ((30,), (300, 300)))


def combined(*axes: Axis, **given: Any) -> list[Combination]:
    def settings(values: Mapping[str, Any]) -> Any:
        return read_settings(given | dict(values))

    return combine(axes, settings)


def test_all_combinations_the_last_one_fastest() -> None:
    found = combined(RANKS, HIDDEN, epochs=3)
    assert [one.title for one in found] == [
        "ranks=1 hidden=30",
        "ranks=1 hidden=300,300",
        "ranks=2 hidden=30",
        "ranks=2 hidden=300,300",
    ]
    assert [one.folder for one in found][1::2] == [
        "02-ranks=1,hidden=300x300",
        "04-ranks=2,hidden=300x300",
    ]
    assert [one.ranks for one in found] == [1, 1, 2, 2]
    assert {one.settings.epochs for one in found} == {3}
    assert found[3].settings.hidden == (300, 300)
    assert "--hidden=300,300" in found[3].flags()


def test_names_of_folders_are_names_whatever_the_values() -> None:
    (one,) = combined(Axis("data_dir", (Path("a b/../c:d"),)))
    assert one.folder == "01-data-dir=a-b-..-c-d"
    (long,) = combined(Axis("optimizer_options", ("x" * 500,)))
    assert len(long.folder) <= 120


def test_what_cannot_be_is_named_or_left_out() -> None:
    found = combined(Axis("strategy", ("central", "server")), RANKS)
    assert [one.refusal is None for one in found] == [True, True, False, True]
    with pytest.raises(UsageError) as refused:
        check_refusals(found, skip=False)
    assert str(refused.value).startswith("1 of 4 combinations cannot be trained: ")
    assert "--skip-refused:\n  strategy=server ranks=1: strategy 'server' needs" in str(
        refused.value
    )
    check_refusals(found, skip=True)


def test_where_nothing_can_be_trained_there_is_nothing_to_leave_out() -> None:
    with pytest.raises(UsageError, match=r"^strategy 'single' trains on at most 1 rank"):
        check_refusals(combined(Axis("ranks", (2,)), strategy="single"), skip=True)
    with pytest.raises(UsageError, match="2 of 2 combinations cannot be trained: vary something e"):
        check_refusals(combined(Axis("ranks", (2, 3)), strategy="single"), skip=True)


@pytest.mark.parametrize(
    ("axes", "cause"),
    [
        ([RANKS, RANKS], "--vary ranks: stands there twice"),
        ([Axis("strategy", ("ddp", "allreduce"))], "are the same training"),
        ([Axis("seed", tuple(range(40))), Axis("epochs", tuple(range(40)))], "1,600 combinations"),
    ],
)
def test_what_makes_no_sense_is_refused(axes: list[Axis], cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        combined(*axes)


def test_a_sweep_is_known_again_by_its_folder(tmp_path: Path) -> None:
    found = combined(RANKS, HIDDEN, dataset="digits")
    write_asked(tmp_path, found, skip_refused=True)
    assert difference(found, read_asked(tmp_path)) is None
    assert skips_refused(tmp_path)
    check_folder(tmp_path, found)
    for other, told in (
        (combined(RANKS), "which varies ranks, hidden"),
        (combined(RANKS, Axis("hidden", ((30,),))), "with other values of ranks, hidden"),
        (combined(RANKS, HIDDEN, epochs=7), "whose epochs is"),
    ):
        with pytest.raises(UsageError, match=told):
            check_folder(tmp_path, other)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UsageError, match="is not empty"):
        check_folder(tmp_path, combined(RANKS))
    with pytest.raises(RunError, match="is it the folder of a phalanx sweep"):
        read_asked(tmp_path)
    (tmp_path / "sweep.json").write_text('{"trainings": [{}]}')
    with pytest.raises(RunError, match="is not what a sweep writes there"):
        read_asked(tmp_path)


def test_the_next_free_folder_or_that_of_the_same_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ours, others = combined(RANKS), combined(HIDDEN)
    for number, sweep in enumerate((others, ours), start=1):
        folder = free_folder("sweep", sweep)
        assert folder == Path(f"runs/sweep-{number}")
        folder.mkdir(parents=True)
        write_asked(folder, sweep, skip_refused=False)
    assert free_folder("sweep", ours) == Path("runs/sweep-2")
    assert free_folder("sweep", combined(RANKS, HIDDEN)) == Path("runs/sweep-3")
