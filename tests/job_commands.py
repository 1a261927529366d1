"""A pytest plugin to run the command line inside of a test's job: nothing has to be started."""

import inspect
import io
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from phalanx.cli.app import app
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator


class Said(NamedTuple):
    """What rank 0 wrote to its streams."""

    stdout: str
    stderr: str


OnRanks = Callable[..., Said]
_WORLD = "phalanx.train.session.world"
_JOB = ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PHALANX_RANKS")


@pytest.fixture
def on_ranks(
    comm: Communicator, shared_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OnRanks]:
    """Collective. Runs `phalanx ARGUMENTS` on all ranks of the job, in their shared folder.

    With `alone` it runs on rank 0 alone, as outside of any job. All ranks are told what it said.
    """
    monkeypatch.chdir(shared_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("PHALANX_TERMINAL", "0")
    # Whoever starts a program chooses how it fails; here that is pytest, for all tests of the job.
    monkeypatch.setattr("phalanx.cli.start.end_job_on_uncaught_errors", lambda: None)

    def run(*arguments: object, alone: bool = False) -> Said:
        with monkeypatch.context() as here:
            here.setattr(_WORLD, SingleCommunicator if alone else lambda: comm)
            for name in _JOB if alone else ():
                here.delenv(name, raising=False)
            said = None if alone and comm.rank > 0 else _run(list(map(str, arguments)))
        return comm.broadcast_object(said)  # type: ignore[return-value]

    with _left_as_it_was():
        yield run


def _run(arguments: list[str]) -> Said:
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
        assert not app(arguments, standalone_mode=False)
    return Said(output.getvalue(), errors.getvalue())


@contextmanager
def _left_as_it_was() -> Iterator[None]:
    """Undo what a command sets for its whole process, and see that there is no more of it."""
    hooks = _hooks()
    hook = sys.excepthook  # typer sets its own with every call
    log, threads = logging.getLogger("phalanx"), torch.get_num_threads()
    handlers, level = list(log.handlers), log.level
    yield
    log.handlers[:] = handlers
    log.setLevel(level)
    torch.set_num_threads(threads)
    sys.excepthook = hook
    assert _hooks() == hooks


def _hooks() -> list[object]:
    """What other tests of the same job would notice."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    kinds = [kind for kind in vars(torch.optim).values() if isinstance(kind, type)]
    # torch wraps a step itself, when the first optimizer of a class is made.
    steps = [inspect.unwrap(kind.step) for kind in kinds if hasattr(kind, "step")]
    return [sys.excepthook, sys.exit, vars(SystemExit)["code"], *handlers, *steps]
