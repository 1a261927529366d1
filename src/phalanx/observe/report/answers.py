"""How good the model is: the last test, simple models beside it, and what it takes for what."""

from collections.abc import Sequence
from typing import Any

from phalanx.observe.recorded import RecordedRun
from phalanx.observe.report.document import (
    Block,
    Cell,
    Column,
    Matrix,
    Section,
    Table,
    Text,
    each,
    number,
)
from phalanx.observe.report.summary import scores
from phalanx.settings.metrics import SHARES

#: With more classes than these a heat map cannot be read; what is confused most can.
_MOST_CLASSES = 40
_MOST_PAIRS = 20


def answers(runs: Sequence[RecordedRun]) -> Section:
    """The test's numbers beside those of simple models, and the confusion as a heat map."""
    blocks: list[Block] = []
    if any(run.test for run in runs):
        blocks.append(_tests(runs))
    outputs = [(run.name, made) for run in runs if (made := _by_output(run))]
    if outputs:
        blocks += each("run", outputs)
    confused = [(run.name, _confusion(run)) for run in runs if run.test.get("confusion")]
    if confused:
        blocks += each("run", confused)
    elif any(run.test.get("accuracy") is not None for run in runs):
        blocks.append(
            Text("No confusion matrix: `--metrics confusion` has one recorded.", "missing")
        )
    if not blocks:
        blocks.append(Text("No test result: the training has not come to its end.", "missing"))
    return Section("Test", blocks, "The trained model on the test samples.")


def _tests(runs: Sequence[RecordedRun]) -> Table:
    tested = [run for run in runs if run.test]
    rows: list[tuple[str, dict[str, Any]]] = []
    for run in tested:
        found = {name: value for name, (value, _) in scores(run).items()}
        who = run.name if len(tested) > 1 else "this model"
        rows.append((who, found | {"samples": number(run.test.get("count"))}))
    rows += _beside(tested)
    names = [*dict.fromkeys(name for _, one in rows for name in one if name != "samples")]
    columns = [
        Column("answers of"),
        *(Column(name, "percent" if name in SHARES else "number") for name in names),
        Column("samples", "count"),
    ]
    cells: list[list[Cell]] = [
        [who, *(values.get(name) for name in (*names, "samples"))] for who, values in rows
    ]
    return Table("", columns, cells)


def _beside(runs: Sequence[RecordedRun]) -> list[tuple[str, dict[str, Any]]]:
    """Simple models on the same samples: once, if all runs have the same."""
    simple = [_baselines(run) for run in runs]
    if all(one == simple[0] for one in simple):
        return [*simple[0].items()]
    named = zip(runs, simple, strict=True)
    return [(f"{who}, beside {run.name}", of) for run, one in named for who, of in one.items()]


def _baselines(run: RecordedRun) -> dict[str, dict[str, Any]]:
    found = {}
    for name, values in (run.known("baselines") or {}).items():
        if name == "left_out":  # why some model is not among them
            continue
        more = {"accuracy": values.get("accuracy"), **(values.get("more") or {})}
        found[name] = {key: one for key, one in more.items() if number(one) is not None}
    return found


def _by_output(run: RecordedRun) -> list[Block]:
    """The values of each label or target."""
    values = run.test.get("by_output")
    if not values:
        return []
    names = run.known("classes") or []
    columns = [
        Column("output"),
        *(Column(name, "percent" if name in SHARES else "number") for name in values),
    ]
    rows = [[str(name), *cells] for name, *cells in zip(names, *values.values(), strict=False)]
    return [Table("By output", columns, rows)]


def _confusion(run: RecordedRun) -> list[Block]:
    counts = run.test["confusion"]
    given = [str(one) for one in run.known("classes") or ()]
    names = [*given[: len(counts)], *(str(one) for one in range(len(given), len(counts)))]
    by_class = Table(
        "By class",
        [
            Column("class"),
            Column("samples", "count"),
            Column("right", "count"),
            Column("recall", "share", "of its samples, those that were recognised"),
            Column("precision", "share", "of its answers, those that were right"),
        ],
        [_class_row(names, counts, index) for index in range(len(counts))],
        folded=True,
    )
    if len(counts) <= _MOST_CLASSES:
        return [Matrix("What was taken for what", names, counts), by_class]
    return [_pairs(names, counts), by_class]


def _class_row(names: Sequence[str], counts: Sequence[Sequence[int]], index: int) -> list[Cell]:
    there, answered = sum(counts[index]), sum(row[index] for row in counts)
    right = counts[index][index]
    return [
        names[index],
        there,
        right,
        right / there if there else None,
        right / answered if answered else None,
    ]


def _pairs(names: Sequence[str], counts: Sequence[Sequence[int]]) -> Table:
    wrong = sorted(
        (
            (count, row, column)
            for row, line in enumerate(counts)
            for column, count in enumerate(line)
            if count and row != column
        ),
        reverse=True,
    )[:_MOST_PAIRS]
    return Table(
        "Confused most often",
        [Column("class"), Column("taken for"), Column("samples", "count")],
        [[names[row], names[column], count] for count, row, column in wrong],
        note=f"{len(names)} classes are too many for a heat map.",
    )
