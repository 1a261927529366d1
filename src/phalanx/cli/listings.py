"""`phalanx datasets`, `phalanx models` and `phalanx strategies`: what there is to choose from."""

from rich.console import Console
from rich.table import Table

from phalanx import data
from phalanx import models as model_table
from phalanx.strategies.registry import STRATEGIES


def datasets() -> None:
    """List the data sets."""
    table = _table("name", "what", "one sample", "classes", "files in --data-dir")
    for entry in data.describe():
        files = "" if entry.embedded else ", ".join(f"{name}[.gz]" for name in entry.files)
        shape = "×".join(map(str, entry.input_shape))
        table.add_row(entry.name, entry.summary, shape, str(entry.classes), files)
    _print(table)


def models() -> None:
    """List the models; your own is `--model FILE.py:FUNCTION` or `--model MODULE:FUNCTION`."""
    table = _table("name", "what", "options")
    for entry in model_table.describe():
        table.add_row(
            entry.name, entry.summary, ", ".join(f"--{option.name}" for option in entry.options)
        )
    table.add_row(
        "FILE.py:FUNCTION",
        "your own: a function that returns an nn.Module; it is given input_shape and classes "
        "if it has parameters of these names",
        "",
    )
    _print(table)


def strategies() -> None:
    """Explain the ways to train in parallel."""
    table = _table("name", "what it does", "what moves", "what others call it")
    for entry in STRATEGIES.values():
        table.add_row(entry.name, entry.summary, entry.moves, entry.also_called)
    _print(table)


def _table(*columns: str) -> Table:
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print(table: Table) -> None:
    # Piped into a file there is no width to fit into; 80 columns would only break lines.
    console = Console()
    (console if console.is_terminal else Console(width=160)).print(table)
