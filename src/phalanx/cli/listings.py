"""`phalanx datasets` and `phalanx models`: what there is to choose from."""

from rich.table import Table

from phalanx import data
from phalanx import models as model_table
from phalanx.cli.output.console import wide_console
from phalanx.wording import flag


def datasets() -> None:
    """List the data sets."""
    table = _table("name", "what", "one sample", "classes", "files in --data-dir")
    for entry in data.describe():
        files = "" if entry.embedded else entry.file_list
        shape = "×".join(map(str, entry.input_shape))
        table.add_row(entry.name, entry.summary, shape, str(entry.classes), files)
    table.add_row(
        "FILE.py:FUNCTION",
        "your own: a function that returns a phalanx.Dataset; it is given data_dir and seed if it "
        "has parameters of these names, and parameters with defaults are flags",
        "any",
        "any",
        "whatever it reads",
    )
    wide_console().print(table)


def models() -> None:
    """List the models; your own is `--model FILE.py:FUNCTION` or `--model MODULE:FUNCTION`."""
    table = _table("name", "what", "options")
    for entry in model_table.describe():
        flags = [flag(option.name) for option in entry.options]
        table.add_row(entry.name, entry.summary, ", ".join(flags))
    table.add_row(
        "FILE.py:FUNCTION",
        "your own: a function that returns an nn.Module; it is given input_shape and classes "
        "if it has parameters of these names",
        "its parameters with defaults",
    )
    console = wide_console()
    console.print(table)
    console.print("All of them take --init, too: how their weights begin.")


def _table(*columns: str) -> Table:
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
