"""The `phalanx` command and its sub-commands."""

from typing import Annotated

import typer

from phalanx.cli.compare import compare
from phalanx.cli.evaluate import evaluate
from phalanx.cli.export import export
from phalanx.cli.flags.own import SettingsCommand
from phalanx.cli.listings import datasets, models
from phalanx.cli.predict import predict
from phalanx.cli.pydtnn import pydtnn
from phalanx.cli.run import run
from phalanx.cli.strategies import strategies
from phalanx.cli.train import train

app = typer.Typer(
    name="phalanx",
    help="Train neural networks across MPI ranks: one model, one flag for the parallel strategy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (train, evaluate, predict, export, compare, datasets, models, strategies):
    app.command(cls=SettingsCommand if command in (train, evaluate, compare) else None)(command)

# What follows the program's name is the program's, whatever it looks like.
app.command(context_settings={"allow_interspersed_args": False})(run)

# Another program's options: none of them is known here, all are passed on.
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(pydtnn)


def _print_version(wanted: bool) -> None:
    if wanted:
        from phalanx import __version__

        print(f"phalanx {__version__}")
        raise typer.Exit


@app.callback()
def _phalanx(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass
