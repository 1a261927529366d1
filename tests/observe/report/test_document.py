"""What a report says is what the run's folder says."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from phalanx.errors import RunError, UsageError
from phalanx.observe.recorded import read_runs
from phalanx.observe.report.document import (
    Bars,
    Block,
    Chart,
    Choice,
    Document,
    Facts,
    Matrix,
    Table,
    Text,
)
from phalanx.observe.report.runs import document_of
from phalanx.observe.scaling import scaled
from tests.observe.run_folders import CLASSES, CONFUSION, HISTORY, PHASES, write_run, write_table


def blocks_of(document: Document, heading: str) -> list[Block]:
    """The blocks of a section, those to choose from included."""
    (section,) = (one for one in document.sections if one.heading == heading)
    return flat(section.blocks)


def flat(blocks: Sequence[Block]) -> list[Block]:
    found: list[Block] = []
    for block in blocks:
        inside = block.blocks if isinstance(block, Choice) else ()
        found += [block, *flat([one for part in inside for one in part])]
    return found


def only(kind: type, blocks: Sequence[Block], title: str | None = None) -> Any:
    (found,) = (
        one
        for one in blocks
        if isinstance(one, kind) and title in (None, getattr(one, "title", None))
    )
    return found


def cells(table: Table, row: int) -> dict[str, Any]:
    return dict(zip((column.title for column in table.columns), table.rows[row], strict=True))


def texts(document: Document) -> str:
    return "\n".join(
        block.text
        for section in document.sections
        for block in flat(section.blocks)
        if isinstance(block, Text)
    )


@pytest.fixture
def one(tmp_path: Path) -> Path:
    return write_run(tmp_path / "one")


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return write_run(tmp_path / "two", ranks=2)


def test_one_run_in_numbers(one: Path) -> None:
    document = document_of(read_runs([one]))
    facts = {fact.label: fact.value for fact in only(Facts, blocks_of(document, "Result")).facts}
    result = json.loads((one / "result.json").read_text())
    assert facts["test accuracy"] == result["test"]["accuracy"]
    assert facts["test loss"] == result["test"]["loss"]
    assert facts["time"] == result["seconds"]
    assert facts["samples/s"] == result["samples_per_second"]
    assert facts["memory of the host"] == result["memory_bytes"]
    assert facts["parameters"] == result["parameters"]
    assert document.title == "mlp on digits"


def test_runs_side_by_side(one: Path, two: Path) -> None:
    document = document_of(read_runs([one, two]))
    table = only(Table, blocks_of(document, "Result"))
    for index, run in enumerate((one, two)):
        result, row = json.loads((run / "result.json").read_text()), cells(table, index)
        assert row["run"] == run.name
        assert row["ranks"] == index + 1
        assert row["time"] == result["seconds"]
        assert row["bytes a step"] == result["bytes_per_step"]
        assert row["memory a rank"] == result["memory_bytes_per_rank"]
    assert cells(table, 0)["speed-up"] == 1
    assert cells(table, 1)["speed-up"] == pytest.approx(2**0.5)
    assert cells(table, 1)["efficiency"] == pytest.approx(2**0.5 / 2)
    chart = only(Chart, blocks_of(document, "Speed"), "Speed-up")
    assert [one.name for one in chart.series] == ["ideal", "central"]
    assert chart.series[1].points == [(1, 1), (2, pytest.approx(2**0.5))]


def test_curves_are_those_of_the_history(one: Path) -> None:
    chart = only(Chart, blocks_of(document_of(read_runs([one])), "Learning"), "Loss")
    assert [(one.name, one.style) for one in chart.series] == [
        ("train", "solid"),
        ("validation", "dashed"),
    ]
    assert chart.series[0].points == [(row["epoch"], row["loss"]) for row in HISTORY]
    assert chart.series[1].points == [(row["epoch"], row["validation_loss"]) for row in HISTORY]


def test_curves_on_each_other_are_all_seen(one: Path, two: Path) -> None:
    chart = only(Chart, blocks_of(document_of(read_runs([one, two])), "Learning"), "Loss")
    assert [one.width for one in chart.series] == [4, 4, 2, 2]


def test_a_long_history_is_thinned_and_says_so(one: Path) -> None:
    rows = [{"epoch": epoch, "loss": 1 / epoch} for epoch in range(1, 5001)]
    write_table(one / "history.csv", rows)
    chart = only(Chart, blocks_of(document_of(read_runs([one])), "Learning"), "Loss")
    points = chart.series[0].points
    assert len(points) <= 1001
    assert {point in [(row["epoch"], row["loss"]) for row in rows] for point in points} == {True}
    assert points[-1] == (5000, 1 / 5000)
    assert chart.note.startswith("Every 5th epoch")


def test_what_was_taken_for_what(one: Path) -> None:
    blocks = blocks_of(document_of(read_runs([one])), "Test")
    matrix = only(Matrix, blocks)
    assert (list(matrix.names), matrix.counts) == (CLASSES, CONFUSION)
    by_class = only(Table, blocks, "By class")
    assert cells(by_class, 1) == {
        "class": "one",
        "samples": 11,
        "right": 9,
        "recall": 9 / 11,
        "precision": 9 / 10,
    }
    tests = only(Table, blocks, "")
    assert [row[0] for row in tests.rows] == ["this model", "most frequent class"]


def test_many_classes_are_a_list_of_what_is_confused(tmp_path: Path) -> None:
    counts = [[0] * 50 for _ in range(50)]
    counts[3][7] = 4
    test = {"loss": 1.0, "accuracy": 0.0, "count": 4, "confusion": counts}
    run = write_run(tmp_path / "run", result={"test": test, "classes": [*map(str, range(50))]})
    blocks = blocks_of(document_of(read_runs([run])), "Test")
    assert only(Table, blocks, "Confused most often").rows == [["3", "7", 4]]
    assert not any(isinstance(block, Matrix) for block in blocks)


def test_phases_by_rank_and_epoch_and_who_waited(two: Path) -> None:
    document = document_of(read_runs([two]))
    blocks = blocks_of(document, "Where the time went")
    seconds = json.loads((two / "result.json").read_text())["phases"]["seconds"]
    bars = only(Bars, blocks, "By rank")
    assert {part.name: part.values for part in bars.parts} == seconds
    table = only(Table, blocks, "Seconds by phase")
    assert {row[0]: row[1:3] for row in table.rows} == seconds | {"in all": [4.0, 4.0]}
    assert "others waited for rank 1, which computed longest" in texts(document)
    by_epoch = only(Bars, blocks, "By epoch, rank 1")
    with (two / "phases.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["rank"] == "1"]
    for part in by_epoch.parts:
        assert part.values == [float(row[f"{part.name}_seconds"]) for row in rows]
    assert [part.name for part in by_epoch.parts] == [*PHASES]


def test_settings_that_differ_and_those_that_do_not(one: Path, two: Path) -> None:
    blocks = blocks_of(document_of(read_runs([one, two])), "What ran")
    differ = only(Table, blocks, "What differs")
    assert [row[0] for row in differ.rows] == ["strategy", "ranks"]
    same = {row[0]: row[1] for row in only(Table, blocks, "The same in all").rows}
    assert same["hidden"] == "30"
    environment = blocks_of(document_of(read_runs([one, two])), "Environment")
    assert ["processor", "abacus"] in only(Table, environment).rows


def test_an_older_run_says_what_is_not_there(one: Path) -> None:
    (one / "phases.csv").unlink()
    result = json.loads((one / "result.json").read_text())
    del result["phases"], result["memory_bytes_by_rank"], result["parameters"], result["hosts"]
    del result["test"]["confusion"]
    (one / "result.json").write_text(json.dumps(result))
    write_table(one / "history.csv", [{"epoch": 1, "loss": 2.0, "accuracy": 0.5}])
    said = texts(document_of(read_runs([one])))
    for flag in ("--profile", "--metrics confusion", "--validation-split"):
        assert flag in said
    assert "No speed-up" in said


def test_a_training_under_way(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", finished=False)
    document = document_of(read_runs([run]))
    assert "Not at its end, and without a result: run." in texts(document)
    assert only(Chart, blocks_of(document, "Learning"), "Loss").series


def test_a_folder_of_runs_stands_for_them(one: Path, two: Path, tmp_path: Path) -> None:
    assert [run.name for run in read_runs([tmp_path])] == ["one", "two"]
    with pytest.raises(UsageError, match="named twice"):
        read_runs([tmp_path, one])
    (tmp_path / "none").mkdir()
    with pytest.raises(RunError, match="is not the folder of a run"):
        read_runs([tmp_path / "none"])


def test_names_tell_runs_apart(tmp_path: Path) -> None:
    paths = [write_run(tmp_path / parent / "run") for parent in ("a", "b")]
    assert [run.name for run in read_runs(paths)] == ["a/run", "b/run"]


def test_another_batch_is_another_training(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "small"),
        write_run(tmp_path / "large", ranks=2, settings={"batch_size": 256}),
    ]
    assert [one.speed_up for one in scaled(read_runs(runs))] == [1, None]


@pytest.mark.parametrize(
    ("name", "text", "cause"),
    [
        ("history.csv", "epoch,loss\n1,much\n", "history.csv: 'loss' is not a column of numbers"),
        ("phases.csv", "epoch,rank\n1,\0\n", "phases.csv: "),
        ("result.json", "[1, 2", "result.json: cannot be read"),
        ("result.json", '{"phases": {"seconds": {"load": [1, 2]}, "elapsed": [1]}}', "'phases'"),
        ("result.json", '{"test": {"confusion": [[1, 2], [3]]}}', "'test' is not"),
        ("result.json", '{"tables": [{"title": 3}]}', "'tables' is not"),
        ("config.json", '{"settings": 3}', "config.json: has no settings"),
    ],
)
def test_damaged_files_are_named(one: Path, name: str, text: str, cause: str) -> None:
    (one / name).write_text(text)
    with pytest.raises(RunError, match=cause):
        read_runs([one])
