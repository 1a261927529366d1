"""A table of a user's own: numbers as they are, categories one-hot, one column the class.

Numbers are not scaled: `--normalise` does that.
"""

from pathlib import Path

import torch

from phalanx.data.options import TEST_SPLIT
from phalanx.data.split import Dataset, Split, part_test
from phalanx.data.tables.columns import assign
from phalanx.data.tables.encode import encode_columns
from phalanx.data.tables.files import find
from phalanx.data.tables.form import TableForm, places
from phalanx.data.tables.table import Column, Table, read_table


def load(
    path: Path,
    *,
    target: str | None = None,
    drop: str | None = None,
    test_split: float | None = None,
    seed: int = 0,
    form: TableForm | None = None,
) -> Dataset:
    """The rows of a table, a share of them held out to test with unless a table has test rows.

    `target` is the name or the number of the column with the classes, the last by default. Where a
    `form` is known, from an earlier training, that is what tables are read by instead.
    """
    tables = find(path, split_is_given=test_split is not None)
    if form is not None:  # and so nothing is trained: test rows will do
        train = test = _of_form(tables.test or tables.train, form)
    else:
        table = read_table(tables.train)
        form = assign(table, target=target, drop=drop)
        columns = [table.columns[column.place] for column in form.inputs]
        train = _split(table, columns, table.columns[form.target.place], form)
        test = train if tables.test is None else _of_form(tables.test, form)
    if tables.test is None:
        share = TEST_SPLIT.default if test_split is None else test_split
        train, test = part_test(train, share, seed=seed)
    return Dataset("csv", train, test, form.classes, table=form)


def _of_form(path: Path, form: TableForm) -> Split:
    table = form.read(path)
    return _split(table, form.input_columns(table), form.target_column(table), form)


def _split(table: Table, columns: list[Column], target: Column, form: TableForm) -> Split:
    inputs = encode_columns(table, columns, like=form.inputs)
    return Split(inputs, torch.tensor(places(table, target, known=form.classes, kind="class")))
