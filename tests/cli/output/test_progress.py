"""What a person sees while a training runs."""

import io
import re

import pytest
import torch
from rich.console import Console

from phalanx.cli.output.progress import Bar, Lines, make_progress
from phalanx.comm.launch.job import on_terminal
from phalanx.train.metrics import Meter, Metrics
from phalanx.train.progress import Progress


def a_meter() -> Meter:
    meter = Meter()
    meter.add(4.0, torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([1, 1]))
    return meter


def play(progress: Progress) -> None:
    progress.start(2, 3, steps=5)
    for step in range(5):
        progress.step(2 * (step + 1), a_meter())
    train = Metrics(loss=0.5, accuracy=0.75, count=10)
    progress.finish(train, Metrics(loss=0.25, accuracy=1.0, count=4), 1234.5)


def test_lines_are_throttled_and_end_with_the_exact_values() -> None:
    text = io.StringIO()
    play(Lines(Console(file=text)))
    assert text.getvalue().splitlines() == [
        "epoch 2/3  1,234 samples/s  loss 0.5000  accuracy 75.00%"
        "  validation loss 0.2500  accuracy 100.00%"
    ]


def test_lines_come_while_an_epoch_lasts() -> None:
    text = io.StringIO()
    play(Lines(Console(file=text), interval=0.0))
    lines = text.getvalue().splitlines()
    assert len(lines) == 6
    assert re.match(
        r"epoch 2/3  step 1/5  [\d,]+ samples/s  loss 2.0000  accuracy 50.00%", lines[0]
    )


def test_a_terminal_gets_a_bar() -> None:
    text = io.StringIO()
    progress = make_progress(Console(file=text, force_terminal=True, width=140))
    assert isinstance(progress, Bar)
    play(progress)
    assert "━" in text.getvalue()
    assert "validation loss 0.2500" in text.getvalue()


def test_the_launcher_knows_whether_a_person_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under mpiexec every rank's standard output is a pseudo-terminal, even into a file."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("PHALANX_TERMINAL", raising=False)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    assert not on_terminal()
    monkeypatch.setenv("PHALANX_TERMINAL", "1")
    assert on_terminal()
