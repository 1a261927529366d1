"""A table of a user's own: numbers as they are, categories one-hot, one column the target or more.

Numbers are not scaled: `--normalise` does that. What stands in for missing values is taken from the
rows that are trained on.
"""

import logging
from functools import partial
from pathlib import Path
from typing import NamedTuple

from phalanx.data.options import TEST_SPLIT
from phalanx.data.split import Dataset, Split, part_test, training_rows
from phalanx.data.tables.columns import Roles, assign, odd_columns
from phalanx.data.tables.encode import encode_rows, encode_targets
from phalanx.data.tables.files import find
from phalanx.data.tables.form import TableForm
from phalanx.data.tables.missing import REFUSE, Missing
from phalanx.data.tables.table import Table, read_table

_log = logging.getLogger(__name__)
#: A column that becomes more inputs is mentioned.
_FEW_CATEGORIES = 10


def load(
    path: Path,
    *,
    target: str | None = None,
    drop: str | None = None,
    missing: Missing = REFUSE,
    most_categories: int | None = None,
    skip_bad: bool = False,
    encoding: str | None = None,
    test_split: float | None = None,
    seed: int = 0,
    task: str | None = None,
    form: TableForm | None = None,
) -> Dataset:
    """The rows of a table, a share of them held out to test with unless a table has test rows.

    `target` names the column, or columns, with the targets, or numbers them: by default the last.
    Tables are read by a `form` instead, where one is known from an earlier training.
    """
    tables = find(path, split_is_given=test_split is not None)
    share = TEST_SPLIT.default if test_split is None else test_split
    of_form = partial(_of_form, encoding=encoding, skip_bad=skip_bad)
    if form is not None:  # and so nothing is trained: test rows will do
        train = test = of_form(tables.test or tables.train, form)
    else:
        roles = Roles(target, drop, missing=missing, most_categories=most_categories, task=task)
        held = 0.0 if tables.test is not None else share
        table, form = assign(
            read_table(tables.train, encoding=encoding, skip_bad=skip_bad),
            roles,
            skip_bad=skip_bad,
            training=lambda count: training_rows(count, held, seed=seed).tolist(),
        )
        _tell_inputs(form)
        train = _Part(_split(table, form), (*odd_columns(table, form), *table.notes))
        test = train if tables.test is None else of_form(tables.test, form)
    notes = train.notes if test is train else (*train.notes, *test.notes)
    parts = train.split, test.split
    parts = part_test(train.split, share, seed=seed) if tables.test is None else parts
    return Dataset("csv", *parts, form.classes, table=form, notes=notes, task=form.task)


class _Part(NamedTuple):
    """Samples, and what a user should know about them."""

    split: Split
    notes: tuple[str, ...]


def _of_form(path: Path, form: TableForm, *, encoding: str | None, skip_bad: bool) -> _Part:
    found = form.read(path, encoding=encoding, skip_bad=skip_bad)
    table = form.checked(found, classes=True, skip_bad=skip_bad)
    return _Part(_split(table, form), (*table.notes, *form.notes(table)))


def _split(table: Table, form: TableForm) -> Split:
    return Split(encode_rows(table, form), encode_targets(table, form), scale=1.0)


def _tell_inputs(form: TableForm) -> None:
    for column in form.inputs:
        count = len(column.categories or ())
        if count > _FEW_CATEGORIES:
            _log.info("csv: column '%s' has %d values, an input each", column.name, count)
