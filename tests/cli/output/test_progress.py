"""What a person sees while a training runs."""

import io
import re

import pytest
import torch
from rich.console import Console
from torch import nn

import phalanx
from phalanx.cli.output.console import make_console
from phalanx.cli.output.progress import Bar, Lines, shown_progress
from phalanx.comm.single import SingleCommunicator
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


def test_a_script_shows_its_progress_on_the_first_rank(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    samples = phalanx.Split(torch.randn(8, 2), torch.arange(8) % 2)
    with phalanx.Trainer(model, optimizer, comm=SingleCommunicator()) as trainer:
        trainer.fit(samples, epochs=1, batch_size=4)
        assert capsys.readouterr().out == ""
        trainer.fit(samples, epochs=2, batch_size=4, progress=phalanx.ProgressBar())
        lines = capsys.readouterr().out.splitlines()
        assert [line.partition("  ")[0] for line in lines] == ["epoch 2/3", "epoch 3/3"]
        monkeypatch.setattr("phalanx.cli.output.progress.is_first_rank", lambda: False)
        trainer.fit(samples, epochs=1, batch_size=4, progress=phalanx.ProgressBar())
        assert capsys.readouterr().out == ""


def epochs(progress: Progress, count: int, *, of: int) -> None:
    for number in range(1, count + 1):
        progress.start(number, of, steps=1)
        progress.step(2, a_meter())
        progress.finish(Metrics(loss=0.5, accuracy=0.75, count=2), None, 10.0)


def shown(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"^epoch (\d+)/150  10 ", text, re.MULTILINE)]


def test_of_short_epochs_the_first_and_the_last_are_shown() -> None:
    text = io.StringIO()
    lines = Lines(Console(file=text), apart=3600.0)
    epochs(lines, 150, of=150)
    lines.end()
    assert shown(text.getvalue()) == [1, 2, 3, 150]


def test_the_last_of_epochs_that_end_early_is_shown() -> None:
    text = io.StringIO()
    lines = Lines(Console(file=text), apart=3600.0)
    epochs(lines, 20, of=150)
    lines.end()
    lines.end()
    assert shown(text.getvalue()) == [1, 2, 3, 20]


def test_of_long_epochs_all_are_shown() -> None:
    text = io.StringIO()
    epochs(Lines(Console(file=text), apart=0.0), 20, of=150)
    assert shown(text.getvalue()) == [*range(1, 21)]


def test_a_terminal_has_one_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bar, "_APART", 3600.0)
    text = io.StringIO()
    with shown_progress(Console(file=text, force_terminal=True, width=140)) as progress:
        epochs(progress, 150, of=150)
        progress.end()
    standing = re.findall(r"epoch (\d+)/150  10 samples/s", text.getvalue())
    assert standing == ["1", "2", "3", "150"]


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
    with shown_progress(Console(file=text, force_terminal=True, width=140)) as progress:
        assert isinstance(progress, Bar)
        play(progress)
    assert "━" in text.getvalue()
    assert "validation loss 0.2500" in text.getvalue()


def test_a_terminal_of_mpiexec_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under mpiexec every rank's standard output is a pseudo-terminal, even into a file."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("PHALANX_TERMINAL", raising=False)
    monkeypatch.delenv("OMPI_COMM_WORLD_RANK", raising=False)
    assert make_console().is_terminal
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    assert not make_console().is_terminal
