"""The `phalanx` command and its sub-commands."""

from typing import Annotated

import typer

from phalanx.cli.evaluate import evaluate
from phalanx.cli.listings import datasets, models, strategies
from phalanx.cli.predict import predict
from phalanx.cli.train import train

app = typer.Typer(
    name="phalanx",
    help="Train neural networks across MPI ranks: one model, one flag for the parallel strategy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (train, evaluate, predict, datasets, models, strategies):
    app.command(no_args_is_help=False)(command)


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
