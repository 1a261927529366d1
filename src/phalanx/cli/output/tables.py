"""The tables that commands print."""

from typing import TYPE_CHECKING, Any

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import nn

from phalanx.models.table import Sizes, layer_rows, parameter_count
from phalanx.settings.defaults import nominal_rate, usual_reasons
from phalanx.strategies import base as strategies
from phalanx.wording import counted

if TYPE_CHECKING:
    from phalanx.train.session import Session

#: Wider than any table.
_ANY = 10_000


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


#: What a table's rows and columns are, where its title says too little.
_CAPTIONS = {"Confusion": "a row: the samples that are of a class; a column: the answers"}


def plain_table(content: strategies.TextTable, *, width: int) -> Table:
    """A strategy's own table: words on the left, all else on the right; no wider than this.

    What does not fit goes on in the next line: nothing is cut off.
    """
    table, endless = _filled(content), Console(width=_ANY, markup=False, emoji=False)
    if endless.measure(table).maximum <= width:
        return table
    return _filled(content, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0))


def _filled(content: strategies.TextTable, **look: Any) -> Table:
    caption = _CAPTIONS.get(content.title)
    table = Table(title=content.title, title_justify="left", caption=caption, **look)
    table.caption_justify = "left"
    for index, column in enumerate(content.columns):
        table.add_column(column, justify="right" if index else "left", overflow="fold")
    for row in content.rows:
        table.add_row(*row)
    return table


def settings_table(session: "Session") -> Table:
    """What is trained, how, and over how many ranks."""
    settings, ranks = session.settings, session.comm.size
    usual = {name: f" ({why})" for name, why in usual_reasons(settings).items()}
    optimizer = f"{settings.optimizer}, learning rate {nominal_rate(settings):g}"
    optimizer += usual.get("learning_rate", "")
    if settings.momentum is not None:
        optimizer += f", momentum {settings.momentum:g}"
    inputs = "mean 0, deviation 1" if settings.normalise else "as they are"
    rows = {
        "data": f"{settings.dataset}, {', '.join(_counts(session))} samples",
        "inputs": f"{inputs}{usual.get('normalise', '')}",
        "strategy": f"{session.strategy} on {counted(ranks, 'rank')}, "
        f"{counted(torch.get_num_threads(), 'thread')} each",
        "batch": f"{session.batch_size:,} samples a step over all ranks"
        f"{usual.get('batch_size', '')}",
        "optimizer": optimizer,
        "task, loss": f"{settings.task}, "
        f"{settings.objective or f'{settings.loss}, {settings.reduction}'}",
        "epochs": f"{settings.epochs}{usual.get('epochs', '')}",
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
