"""The beginning of the page: what came of each run, and what they were asked for."""

from collections.abc import Mapping, Sequence
from typing import Any

from phalanx.observe.recorded import RecordedRun
from phalanx.observe.report.document import (
    Block,
    Cell,
    Column,
    Fact,
    Facts,
    Kind,
    Section,
    Table,
    Text,
    each,
    number,
)
from phalanx.observe.scaling import Scaled, differing, said, text_of
from phalanx.settings.metrics import SHARES
from phalanx.settings.panels import default_of
from phalanx.settings.table import SETTINGS

SPEED_UP = "samples/s over those of the same training with one rank and one thread"
EFFICIENCY = "the speed-up by the cores in use: ranks times threads"
#: Of the settings, what is in columns of its own, or says where files are.
_ELSEWHERE = ("strategy", "ranks", "threads", "output", "trace", "data_dir", "profile")
_TEST = "on the test samples"
#: Tables that are shown where they belong, as numbers.
_OF_TEST = ("Confusion", "By class", "By label", "By target")


def summary(runs: Sequence[Scaled]) -> Section:
    """The numbers to see first: of one run by themselves, of more in a table."""
    blocks: list[Block]
    blocks = [_facts(runs[0])] if len(runs) == 1 else [_table(runs)]
    blocks += [
        Text(f"{one.run.name}: {one.run.known('advice')}", "warning")
        for one in runs
        if one.run.known("advice")
    ]
    return Section("Result", blocks)


def scores(run: RecordedRun) -> dict[str, tuple[float, Kind]]:
    """What the test came to: its loss, its accuracy and whatever else was measured."""
    test = run.test
    more = test.get("more") if isinstance(test.get("more"), dict) else {}
    found = {"accuracy": test.get("accuracy"), **(more or {}), "loss": test.get("loss")}
    return {
        name: (value, "percent" if name in SHARES else "number")
        for name, one in found.items()
        if (value := number(one)) is not None
    }


def _facts(one: Scaled) -> Facts:
    run = one.run
    measured = [
        Fact(f"test {name}", value, kind, _TEST) for name, (value, kind) in scores(run).items()
    ]
    facts = [
        *measured[:3],
        Fact("time", number(run.known("seconds")), "seconds", "of the training alone"),
        Fact("samples/s", number(run.known("samples_per_second")), "rate"),
        Fact("ranks", run.ranks, "count"),
        Fact("threads a rank", run.threads, "count"),
        Fact("parameters", number(run.known("parameters")), "count"),
        Fact("memory of the host", number(run.known("memory_bytes")), "bytes"),
    ]
    return Facts([fact for fact in facts if fact.value is not None])


def _table(runs: Sequence[Scaled]) -> Table:
    measured = dict.fromkeys(name for one in runs for name in scores(one.run))
    kinds: dict[str, Kind] = {name: "percent" if name in SHARES else "number" for name in measured}
    varied = [
        name for name in differing([one.run.settings for one in runs]) if name not in _ELSEWHERE
    ]
    columns = [
        Column("run"),
        *(
            Column(said(name), _kind([one.run.settings.get(name) for one in runs]))
            for name in varied
        ),
        Column("strategy"),
        Column("ranks", "count"),
        Column("threads", "count", "of each rank"),
        Column("time", "seconds", "of the training alone"),
        Column("samples/s", "rate"),
        Column("speed-up", "ratio", SPEED_UP),
        Column("efficiency", "share", EFFICIENCY),
        *(Column(name, kind, _TEST) for name, kind in kinds.items()),
        Column("bytes a step", "bytes", "what all ranks together hand to MPI"),
        Column("memory a rank", "bytes", "of the one that uses most"),
    ]
    rows = [_row(one, varied, [*measured]) for one in runs]
    kept = [index for index in range(len(columns)) if any(row[index] is not None for row in rows)]
    return Table(
        "", [columns[index] for index in kept], [[row[index] for index in kept] for row in rows]
    )


def _row(one: Scaled, varied: Sequence[str], measured: Sequence[str]) -> list[Cell]:
    run, found = one.run, scores(one.run)
    return [
        run.name,
        *(_cell(run.settings.get(name)) for name in varied),
        run.strategy,
        run.ranks,
        run.threads,
        number(run.known("seconds")),
        number(run.known("samples_per_second")),
        one.speed_up,
        one.efficiency,
        *(found[name][0] if name in found else None for name in measured),
        number(run.known("bytes_per_step")),
        number(run.known("memory_bytes_per_rank")),
    ]


def what_ran(runs: Sequence[RecordedRun]) -> Section:
    """The settings: what differs between the runs, what somebody chose, and all others."""
    settings = [run.settings for run in runs]
    differ = differing(settings)
    columns = [Column("setting"), *(Column(run.name) for run in runs)]
    blocks: list[Block] = []
    if len(runs) > 1:
        rows = [[said(name), *(text_of(one.get(name)) for one in settings)] for name in differ]
        blocks.append(Table("What differs", columns, rows) if rows else Text("Nothing differs."))
    same = [name for name in settings[0] if name not in differ]
    chosen = [name for name in same if not _is_usual(name, settings[0])]
    value = [Column("setting"), Column("value")]
    blocks.append(
        Table("The same in all" if len(runs) > 1 else "Chosen", value, _lines(chosen, settings[0]))
    )
    usual = [name for name in same if name not in chosen]
    blocks.append(Table("As usual", value, _lines(usual, settings[0]), folded=True))
    told = [(run.name, made) for run in runs if (made := _told(run))]
    blocks += each("run", told) if told else []
    return Section("What ran", blocks)


def _told(run: RecordedRun) -> list[Block]:
    """What its strategy has to say, in tables of texts."""
    return [
        Table(one["title"], [Column(name) for name in one["columns"]], one["rows"])
        for one in run.known("tables") or ()
        if one["title"] not in _OF_TEST
    ]


def _lines(names: Sequence[str], settings: Mapping[str, Any]) -> list[list[Cell]]:
    return [[said(name), text_of(settings.get(name))] for name in names]


def _is_usual(name: str, settings: Mapping[str, Any]) -> bool:
    value = settings.get(name)
    if name not in SETTINGS:
        return False
    usual = default_of(name)
    return bool(value == (list(usual) if isinstance(usual, tuple) else usual))


def _cell(value: Any) -> Cell:
    return number(value) if number(value) is not None else text_of(value)


def _kind(values: Sequence[Any]) -> Kind:
    return "setting" if all(number(value) is not None for value in values) else "text"
