"""A table with new rows, encoded as the table of a training was: the same columns, the same codes.

The class may be there or not.
"""

from pathlib import Path

import torch
from torch import Tensor

from phalanx.data.tables.encode import encode_cells, encode_columns
from phalanx.data.tables.form import TableForm
from phalanx.data.tables.table import read_table


def encode_like_training(path: Path, form: TableForm) -> Tensor:
    """The rows of a table as the model of a csv run takes them."""
    table = form.read(path)
    return encode_columns(table, form.input_columns(table), like=form.inputs)


def plain_numbers(path: Path) -> Tensor:
    """The rows of a table of numbers alone, as they are."""
    table = read_table(path)
    return torch.cat([encode_cells(table, column) for column in table.columns], dim=1)
