"""The tables that commands print."""

from typing import TYPE_CHECKING

import torch
from rich.table import Table
from torch import nn

from phalanx.models.table import Sizes, layer_rows, parameter_count
from phalanx.strategies import base as strategies

if TYPE_CHECKING:
    from phalanx.train.session import Session


def layer_table(model: nn.Module, input_shape: tuple[int, ...], dtype: torch.dtype) -> Table:
    """The model layer by layer."""
    table = Table(title="Model", title_justify="left")
    for column in ("layer", "type", "parameters", "output", "weights", "padding", "stride"):
        table.add_column(column, justify="right" if column == "parameters" else "left")
    for row in layer_rows(model, input_shape, dtype=dtype):
        table.add_row(
            row.name,
            row.type,
            f"{row.parameters:,}" if row.parameters else "",
            _shape(row.output_shape),
            _shape(row.weight_shape),
            _shape(row.padding),
            _shape(row.stride),
        )
    table.add_section()
    table.add_row("total", "", f"{parameter_count(model):,}")
    return table


def plain_table(content: strategies.TextTable) -> Table:
    """A strategy's own table: words on the left, all else on the right."""
    table = Table(title=content.title, title_justify="left")
    for index, column in enumerate(content.columns):
        table.add_column(column, justify="right" if index else "left")
    for row in content.rows:
        table.add_row(*row)
    return table


def settings_table(session: "Session") -> Table:
    """What is trained, how, and over how many ranks."""
    settings, ranks = session.settings, session.comm.size
    optimizer = settings.optimizer
    if settings.learning_rate is not None:
        optimizer += f", learning rate {settings.learning_rate:g}"
    if settings.momentum is not None:
        optimizer += f", momentum {settings.momentum:g}"
    rows = {
        "data": f"{settings.dataset}, {', '.join(_counts(session))} samples",
        "strategy": f"{session.strategy} on {ranks} rank{'s' if ranks > 1 else ''}, "
        f"{torch.get_num_threads()} thread{'s' if torch.get_num_threads() > 1 else ''} each",
        "batch": f"{session.batch_size:,} samples a step over all ranks",
        "optimizer": optimizer,
        "loss": f"{settings.loss}, {settings.reduction}",
        "epochs": f"{settings.epochs}",
        "dtype, seed": f"{settings.dtype}, {settings.seed}",
    }
    table = Table(show_header=False, title="Settings", title_justify="left")
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _counts(session: "Session") -> list[str]:
    """How many samples there are for what."""
    held_out = len(session.dataset.train) - session.training_count
    validation = [f"{held_out:,} validation"] if held_out else []
    test = f"{len(session.dataset.test):,} test"
    return [f"{session.training_count:,} training", *validation, test]


def _shape(shape: Sizes | None) -> str:
    if isinstance(shape, tuple):
        return "×".join(str(size) for size in shape)
    return "" if shape is None else str(shape)
