"""Which columns of a table are inputs, and which are the targets. Without torch."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from phalanx.data.tables.cells import parse_number
from phalanx.data.tables.check_cells import wrong_cells
from phalanx.data.tables.class_count import MOST_VALUES, check_class_count
from phalanx.data.tables.files import find
from phalanx.data.tables.form import InputColumn, TableForm
from phalanx.data.tables.missing import NOTHING, REFUSE, Missing, gaps, holds_numbers, stand_in
from phalanx.data.tables.table import Column, Table, read_table
from phalanx.data.tables.target_columns import (
    labels_of,
    separator_of,
    task_of_columns,
    wrong_targets,
)
from phalanx.data.targets.tasks import CLASSIFICATION, MULTI_LABEL
from phalanx.errors import DataError, UsageError
from phalanx.wording import shortened

#: So many numbers that count up are told from values that happen to.
_FEWEST_COUNTED = 10
# So many words in a column are categories, unless hardly one comes twice; few of them always are.
_MOST_CATEGORIES = 100
_FEW_CATEGORIES = 20
#: Larger tables are read by the ranks alone, rather than once more before they start.
_CHECKED_BYTES = 16 << 20

_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}([T ].*)?"
)


@dataclass(frozen=True)
class Roles:
    """What a user says about columns: which have the targets, and which have no role.

    Both are names separated by commas, if there are several.
    """

    target: str | None = None
    drop: str | None = None
    _: KW_ONLY
    missing: Missing = REFUSE
    most_categories: int | None = None
    #: What the targets are for, if that was said.
    task: str | None = None


def check(path: Path, options: Mapping[str, Any], *, form: TableForm | None = None) -> None:
    """Raise for whatever is wrong with the tables, unless they are very large.

    Those that are to be of a form that is known need not be fit to learn from.
    """
    tables = find(path, split_is_given="test_split" in options)
    if tables.test is not None and "test_split" in options:
        raise UsageError(
            f"{path} has test rows of its own, in {tables.test.name}: leave out --test-split, or "
            f"give one file with --data-dir {tables.train}"
        )
    reading = {name: options[name] for name in ("encoding", "skip_bad") if name in options}
    if form is not None:
        _check_form(tables.test or tables.train, form, reading)
    elif tables.train.stat().st_size <= _CHECKED_BYTES:
        asked = ("target", "drop", "missing", "most_categories", "task")
        roles = Roles(**{name: options[name] for name in asked if name in options})
        table = read_table(tables.train, **reading)
        _, form = assign(table, roles, skip_bad=options.get("skip_bad", False))
        if tables.test is not None:
            _check_form(tables.test, form, reading)


def _check_form(path: Path, form: TableForm, reading: Mapping[str, Any]) -> None:
    if path.stat().st_size <= _CHECKED_BYTES:
        form.checked(
            form.read(path, **reading), classes=True, skip_bad=bool(reading.get("skip_bad"))
        )


def assign(
    table: Table,
    roles: Roles,
    *,
    skip_bad: bool = False,
    training: Callable[[int], Sequence[int]] = range,
) -> tuple[Table, TableForm]:
    """Give each column its role; rows with cells that cannot be learnt from may be left out.

    Columns that have a role are checked; what is in the others does not matter. `training` says
    which rows of so many are trained on.
    """
    chosen, inputs = _chosen(table, roles)
    targets = [table.columns[place] for place in chosen]
    task = roles.task or task_of_columns(table, targets)
    separator = _separator(targets) if task == MULTI_LABEL else None
    wrong: dict[int, str] = {}
    may_miss = roles.missing != REFUSE
    for place in inputs:
        column = table.columns[place]
        fix = f"leave out the row, --skip-bad, --missing, or --drop '{shortened(column.name)}'"
        wrong |= dict(wrong_cells(table, column, fix=fix, may_miss=may_miss))
    for column in targets:
        wrong |= _wrong_targets(table, column, task=task, separator=separator)
    if wrong and not skip_bad:
        raise DataError(wrong[min(wrong)])
    table = table.without(dict(sorted(wrong.items())))
    rows = training(len(table.lines))
    first, *others = (_target_column(table, place, task, separator) for place in chosen)
    form = TableForm(
        tuple(_input_column(table, place, roles, rows=rows) for place in inputs),
        first,
        width=len(table.columns),
        has_header=any(one.name != f"column {index}" for index, one in enumerate(table.columns)),
        task=task,
        other_targets=tuple(others),
        separator=separator,
    )
    return table, form


def odd_columns(table: Table, form: TableForm) -> Iterator[str]:
    """What a user should know about the columns of a table that is to be trained on."""
    for one in form.inputs:
        numbers = table.columns[one.place].numbers or []
        counts = all(after - before == 1 for before, after in pairwise(numbers))
        if counts and len(numbers) >= _FEWEST_COUNTED:
            yield (
                f"{table.path}: column '{one.name}' counts the rows, from {numbers[0]:g} to "
                f"{numbers[-1]:g}, and a model would learn from that: --drop '{one.name}'"
            )


def _chosen(table: Table, roles: Roles) -> tuple[list[int], list[int]]:
    """The places of the columns with the targets, and of those to learn from."""
    targets = _places(table, roles.target or "-1", option="--target")
    dropped = set()
    for name in () if roles.drop is None else roles.drop.split(","):
        dropped.add(table.index(name.strip(), option="--drop"))
    for target in targets:
        if target in dropped:
            raise UsageError(
                f"--drop '{table.columns[target].name}': this column has the classes: leave it out "
                "of --drop, or name another with --target"
            )
    inputs = [place for place in range(len(table.columns)) if place not in (*targets, *dropped)]
    if not inputs:
        raise DataError(f"{table.path}: no column is left to learn from")
    return targets, inputs


def _places(table: Table, named: str, *, option: str) -> list[int]:
    """The places of the columns with these names; that of one may have commas in it."""
    if named in [column.name for column in table.columns]:
        return [table.index(named, option=option)]
    places = [table.index(name.strip(), option=option) for name in named.split(",")]
    return list(dict.fromkeys(places))


def _separator(targets: Sequence[Column]) -> str | None:
    """What stands between labels; in columns of 0 and 1 nothing does."""
    if len(targets) > 1 or holds_numbers(targets[0]):
        return None
    return separator_of(targets[0]) or "|"


def _wrong_targets(
    table: Table, column: Column, *, task: str, separator: str | None
) -> dict[int, str]:
    if task != CLASSIFICATION:
        return dict(wrong_targets(table, column, task=task, separator=separator))
    return dict(wrong_cells(table, column, fix="or leave out the row (--skip-bad)"))


def _target_column(table: Table, place: int, task: str, separator: str | None) -> InputColumn:
    column = table.columns[place]
    names: tuple[str, ...] | None = None
    if task == CLASSIFICATION:
        names = _classes(table, column)
    elif separator is not None:
        names = labels_of(column, separator)
        _check_values(table, column, names)
    return InputColumn(column.name, place, names)


def _input_column(table: Table, place: int, roles: Roles, *, rows: Sequence[int]) -> InputColumn:
    column = table.columns[place]
    missing = gaps(column)
    if len(missing) == len(column.values):
        raise DataError(f"{table.path}: column '{column.name}' is empty: --drop '{column.name}'")
    fill = stand_in(column, roles.missing, rows=rows)
    if missing and fill is None:
        raise DataError(
            f"{table.path}: column '{column.name}' has no value in the rows to train on, to fill "
            f"in its missing ones: --drop '{column.name}'"
        )
    if holds_numbers(column):
        marks = roles.missing == "category" and bool(missing)
        return InputColumn(column.name, place, None, fill, marks)
    _check_categories(table.path, column, roles.most_categories)
    nothing = (NOTHING,) if roles.missing == "category" and missing else ()
    return InputColumn(column.name, place, (*_different(column), *nothing), fill)


def _different(column: Column) -> tuple[str, ...]:
    """The different values of a column in order, without missing ones.

    Numbers are in the order of their size, and 1 and 1.0 are the same.
    """
    keys: list[Any] = list(column.values if column.numbers is None else column.numbers)
    written = dict(zip(reversed(keys), reversed(column.values), strict=True))  # the first wins
    for row in gaps(column):
        written.pop(column.values[row], None)
    return tuple(written[key] for key in sorted(written))


def _classes(table: Table, column: Column) -> tuple[str, ...]:
    classes = _different(column)
    if len(classes) < 2:
        where = f"{table.path}: column '{column.name}'"
        raise DataError(f"{where} has one value alone, {classes[0]}: there is nothing to learn")
    _check_values(table, column, classes)
    return classes


def _check_values(table: Table, column: Column, values: Sequence[str]) -> None:
    check_class_count(
        len(values),
        MOST_VALUES,
        where=f"{table.path}: column '{column.name}'",
        seen=f"{len(values):,} values",
        fix="--target names another column",
    )


def _check_categories(path: Path, column: Column, most: int | None) -> None:
    """Refuse words that are no categories: names, numbers of orders, dates."""
    values = _different(column)
    count, rows = len(values), len(column.values)
    if most is None:
        most = min(_MOST_CATEGORIES, max(_FEW_CATEGORIES, rows // 2))
    if count <= most:
        return
    word = next(value for value in values if parse_number(value) is None)
    kind, instead = "values", ""
    if _DATE.fullmatch(word):
        kind, instead = "dates", "make numbers of them, such as the month or the weekday, "
    raise DataError(
        f"{path}: column '{column.name}' has {count:,} {kind} such as '{word}' in {rows:,} rows, "
        f"each of which would be an input: {instead}--drop '{column.name}', or take them as "
        f"categories by --most-categories {count}"
    )
