"""A model as PyDTNN shows it: its words for layers, from Input to Softmax."""

from collections.abc import Mapping

import torch
from rich.box import SQUARE
from rich.table import Table

from phalanx import models
from phalanx.cli.output.console import wide_console
from phalanx.models.table import LayerRow, Sizes, layer_rows

_COLUMNS = ("Layer", "Type", "#Params", "Output shape", "Weights shape", "Padding", "Stride")
_TYPES = {
    "Conv2d": "Conv2D",
    "MaxPool2d": "Pool2D",
    "AvgPool2d": "Pool2D",
    "Linear": "FC",
    "ReLU": "Relu",
    "BatchNorm1d": "BatchNorm",
    "BatchNorm2d": "BatchNorm",
}


def show_model(
    name: str, options: Mapping[str, object], *, input_shape: tuple[int, ...], classes: int
) -> None:
    """Print the table of a model that is built without memory for its weights."""
    with torch.device("meta"):
        model = models.build(name, input_shape=input_shape, classes=classes, options=options)
        rows = layer_rows(model, input_shape)
    wide_console().print(_table(rows, input_shape, classes))


def _table(rows: list[LayerRow], input_shape: tuple[int, ...], classes: int) -> Table:
    table = Table(box=SQUARE, show_lines=True)
    for column in _COLUMNS:
        table.add_column(column, justify="center")
    layers = [
        ("Input", "0", _text(input_shape), "", "", ""),
        *(_cells(row) for row in rows if row.type != "Flatten"),  # which is a part of FC there
        ("Softmax", "0", _text((classes,)), "", "", ""),
    ]
    for number, cells in enumerate(layers):
        table.add_row(str(number), *cells)
    return table


def _cells(row: LayerRow) -> tuple[str, ...]:
    weights = row.weight_shape
    if weights is not None and len(weights) == 2:
        weights = weights[::-1]  # PyDTNN multiplies samples by weights, torch weights by samples
    return (
        *(_TYPES.get(row.type, row.type), str(row.parameters)),
        *(_text(row.output_shape), _text(weights)),
        *(_text(_one(row.padding)), _text(_one(row.stride))),
    )


def _one(sizes: Sizes | None) -> Sizes | None:
    """The same size for height and width, said once."""
    if isinstance(sizes, tuple) and len(set(sizes)) == 1:
        return sizes[0]
    return sizes


def _text(value: Sizes | None) -> str:
    return "" if value is None else str(value)
