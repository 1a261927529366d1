"""`phalanx train`: train a model on one rank or on many."""

from typing import TYPE_CHECKING, Any

from phalanx.cli.flags.settings import with_settings
from phalanx.cli.start import launched, rank_count
from phalanx.clock import phase
from phalanx.comm.launch.job import is_first_rank
from phalanx.settings.rules import check_settings
from phalanx.settings.table import Settings

if TYPE_CHECKING:
    from rich.console import Console

    from phalanx.strategies.base import TextTable
    from phalanx.train.session import Session


@with_settings
def train(settings: Settings) -> None:
    """Train a model on a data set, on one rank or on many.

    * `phalanx train` trains a small network on the embedded digits.
    * `phalanx train --ranks 4` starts four ranks and shares every batch among them.
    * `mpirun -n 4 phalanx train` and `srun --mpi=pmix phalanx train` do the same inside a job.
    * `phalanx train --model net.py:make_model --dataset mnist --data-dir DIR` trains your own.

    Everything ends up in a run folder, for `phalanx evaluate` and `phalanx predict`.
    """
    ranks = rank_count(settings.ranks)
    check_settings(settings, ranks)
    launched(ranks, bind=settings.bind)
    _train_here(settings)


def _train_here(settings: Settings) -> None:
    from phalanx.cli.output.console import make_console
    from phalanx.cli.output.progress import make_progress
    from phalanx.train.progress import Silent
    from phalanx.train.session import open_session
    from phalanx.train.training import train as train_session

    console = make_console()
    if is_first_rank():
        _show_log(console)
    session = open_session(settings, threads=settings.threads)
    if not session.is_first:
        train_session(session, None, progress=Silent())
        return
    import torch

    from phalanx.runs.folder import RunFolder

    run = RunFolder.create(settings)
    run.write_config(
        settings,
        ranks=session.comm.size,
        threads=torch.get_num_threads(),
        strategy=session.strategy,
    )
    with phase("prepare"):
        _introduce(console, session)
    result = train_session(
        session, run, progress=make_progress(console), show=lambda one: show(console, one)
    )
    _conclude(console, result, run)


def show(console: "Console", table: "TextTable") -> None:
    """Print what a strategy or a profile has to say."""
    from phalanx.cli.output.tables import plain_table

    console.print(plain_table(table))


def _show_log(console: "Console") -> None:
    """Show what the library has to say about its choices as a part of the output, and warnings
    where those of the other ranks go."""
    import logging
    import sys

    class Shown(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.WARNING:
                print(record.getMessage(), file=sys.stderr)
            else:
                console.print(record.getMessage(), highlight=False, soft_wrap=True)

    log = logging.getLogger("phalanx")
    log.addHandler(Shown())
    log.setLevel(logging.INFO)


def _introduce(console: "Console", session: "Session") -> None:
    from phalanx.cli.output.tables import layer_table, settings_table

    console.print(layer_table(session.model, session.dataset.input_shape, session.dtype))
    console.print(settings_table(session))


def _conclude(console: "Console", result: dict[str, Any], run: Any) -> None:
    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    before, test = result["test_before"], result["test"]
    if before is not None:
        say(f"test before: loss {before['loss']:.4f}  accuracy {before['accuracy']:.2%}")
    say(
        f"time {result['seconds']:.2f} s  {result['samples_per_second']:,.0f} samples/s  "
        f"memory {result['memory_bytes'] / 2**20:,.0f} MiB on this host"
    )
    say(f"test: loss {test['loss']:.4f}  accuracy {test['accuracy']:.2%}")
    say(f"weights sha256: {result['weights_sha256']}")
    say(f"run: {run.path}")
