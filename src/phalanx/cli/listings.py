"""`phalanx datasets` and `phalanx models`: what there is to choose from."""

from typing import Annotated

import typer
from rich.table import Table

from phalanx import data
from phalanx import models as model_table
from phalanx.cli.output.console import wide_console
from phalanx.settings.defaults import defaults_of, model_entry
from phalanx.settings.table import Settings
from phalanx.wording import flag

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Tell about this one alone.")]


def datasets() -> None:
    """List the data sets."""
    table = _table("name", "what", "one sample", "classes", "normalised", "files in --data-dir")
    for entry in data.describe():
        files = "" if entry.embedded else entry.file_list
        shape = "×".join(map(str, entry.input_shape))
        inputs = "yes" if entry.normalise else "no"
        table.add_row(entry.name, entry.summary, shape, str(entry.classes), inputs, files)
    table.add_row(
        "FILE.py:FUNCTION",
        "your own: a function that returns a phalanx.Dataset; it is given data_dir and seed if it "
        "has parameters of these names, and parameters with defaults are flags",
        "any",
        "any",
        "no",
        "whatever it reads",
    )
    wide_console().print(table)


def models(name: Name = None) -> None:
    """List the models; your own is `--model FILE.py:FUNCTION` or `--model MODULE:FUNCTION`.

    `phalanx models NAME` tells what one takes, and how it is trained unless you say otherwise.
    """
    if name is not None:
        _explain(name)
        return
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


def _explain(name: str) -> None:
    """One model: its options, and what a training takes for what nobody says."""
    model_table.check(name)
    console, entry = wide_console(), model_entry(name)
    console.print(f"{name}: {entry.summary}" if entry.summary else name, highlight=False)
    for option in entry.options:
        console.print(f"  {flag(option.name)}: {option.text}", highlight=False)
    table = _table("data", "optimizer", "learning rate", "epochs", "batch size", "inputs")
    table.title, table.title_justify = "Unless you say otherwise", "left"
    for one in (*data.dataset_names(), "your own"):
        usual = defaults_of(name, one)
        inputs = "mean 0, deviation 1" if usual["normalise"] else "as they are"
        sizes = (f"{usual[key]:g}" for key in ("learning_rate", "epochs", "batch_size"))
        table.add_row(one, Settings().optimizer, *sizes, inputs)
    console.print(table)


def _table(*columns: str) -> Table:
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
