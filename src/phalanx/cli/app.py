"""The `phalanx` command and its sub-commands."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from phalanx.cli.compare import compare
from phalanx.cli.doctor import doctor
from phalanx.cli.evaluate import evaluate
from phalanx.cli.export import export
from phalanx.cli.flags.horovodrun import RunCommand
from phalanx.cli.flags.own import SettingsCommand
from phalanx.cli.listings import datasets, models
from phalanx.cli.observe.advise import advise
from phalanx.cli.observe.plot import plot
from phalanx.cli.observe.report import report
from phalanx.cli.observe.sweep import sweep
from phalanx.cli.observe.verify import verify
from phalanx.cli.predict import predict
from phalanx.cli.pydtnn import pydtnn
from phalanx.cli.run import run
from phalanx.cli.strategies import strategies
from phalanx.cli.submit import submit
from phalanx.cli.train import train
from phalanx.comm.launch.preflight import check_folder


class _Commands(TyperGroup):
    """All commands; typer itself would end a Ctrl-C without a word."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise typer.Abort from error


#: Pages of docs/ that a user may look for.
PAGES = (
    *("get-started", "trainer", "any-model", "notebooks", "data", "own-data", "models", "tasks"),
    *("text", "loading", "predictions", "strategies", "same-bits", "checkpoints", "failures"),
    *("ranks", "networks", "large-models", "scale", "slurm", "performance", "sweeps", "reports"),
    *("figures", "architecture"),
    *("advise", "doctor", "gpus", "trackers", "migration", "horovod", "earlier-systems"),
    *("strategies-course", "security", "glossary"),
)

app = typer.Typer(
    name="phalanx",
    cls=_Commands,
    help="Train neural networks across MPI ranks: one model, one flag for the parallel strategy.",
    epilog=f"Pages to read, in docs/ of the source (`make docs` makes a site): {', '.join(PAGES)}.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
#: Have the flags of a training, and those that its own code declares.
_TRAINING = (train, evaluate, compare, sweep, advise, verify)
_OTHERS = (predict, export, report, plot, datasets, models, strategies, doctor)
for command in (*_TRAINING, *_OTHERS):
    app.command(cls=SettingsCommand if command in _TRAINING else None)(command)

# What follows the program's name is the program's, whatever it looks like.
app.command(cls=RunCommand, context_settings={"allow_interspersed_args": False})(run)
app.command(context_settings={"allow_interspersed_args": False})(submit)

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
    check_folder()
