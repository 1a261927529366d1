"""A table of a user's own: numbers as they are, categories one-hot, one column the class.

A column of categories becomes a column for each of them, in their order, of which one is 1. Numbers
are not scaled: `--normalise` does that.
"""

from pathlib import Path

import torch
from torch import Tensor

from phalanx.data.csv_columns import assign, find, numbered
from phalanx.data.encode import encode_categories, encode_numbers
from phalanx.data.options import TEST_SPLIT
from phalanx.data.split import Dataset, Split, part_test
from phalanx.data.table import Column, read_table


def load(
    path: Path,
    *,
    target: str | None = None,
    drop: str | None = None,
    test_split: float = TEST_SPLIT,
    seed: int = 0,
) -> Dataset:
    """The rows of a table, a share of them held out to test with.

    `target` is the name or the number of the column with the classes, the last by default.
    """
    roles = assign(read_table(find(path)), target=target, drop=drop)
    inputs = torch.cat([_encoded(column) for column in roles.inputs], dim=1)
    samples = Split(inputs, torch.tensor(roles.targets))
    train, test = part_test(samples, test_split, seed=seed)
    return Dataset("csv", train, test, roles.classes)


def _encoded(column: Column) -> Tensor:
    if column.numbers is not None:
        return encode_numbers(column.numbers)
    values, chosen = numbered(column)
    return encode_categories(chosen, count=len(values))
