"""Tables as they are printed: nothing is cut off, and the axes of a confusion are named."""

import io

import pytest
import torch
from rich.console import Console
from torch import nn

from phalanx.cli.output import passes
from phalanx.cli.output.tables import plain_table
from phalanx.train.measures.tables import confusion_table
from phalanx.train.metrics import Metrics

CIFAR = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def printed(classes: list[str], width: int) -> str:
    counts = [[1000 if row == column else 7 for column in range(10)] for row in range(10)]
    metrics = Metrics(loss=0.5, accuracy=0.9, count=10_000, confusion=counts)
    console = Console(file=io.StringIO(), width=width)
    console.print(plain_table(confusion_table(metrics, classes), width=width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 160])
def test_a_confusion_fits_and_says_what_its_axes_are(width: int) -> None:
    text = printed([str(number) for number in range(10)], width)
    assert "…" not in text
    for word in ("precision", "recall", "94.1%", "1000"):
        assert word in text
    assert "a row: the samples that are of a class; a column: the answers" in text
    assert max(map(len, text.splitlines())) <= width


def test_long_names_of_classes_go_on_in_the_next_line() -> None:
    text = printed(CIFAR, 80)
    assert "…" not in text
    assert text.count("1000") == 10
    assert max(map(len, text.splitlines())) <= 80


def test_a_long_evaluation_shows_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = nn.Linear(2, 2)
    monkeypatch.setattr(passes, "_INTERVAL", 0.0)
    monkeypatch.setattr(passes, "_REFRESH", 0.0)
    for terminal in (False, True):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=80)
        with passes.shown_passes(console, model, what="evaluating", total=4):
            for _ in range(4):
                model(torch.zeros(1, 2))
        assert isinstance(console.file, io.StringIO)
        shown = console.file.getvalue() if terminal else capsys.readouterr().err
        assert "evaluating" in shown
        for share in ("25%", "50%", "75%", "100%"):
            assert share in shown
        assert shown.rfind("\x1b[?25h") >= shown.rfind("\x1b[?25l")
    model(torch.zeros(1, 2))
    assert capsys.readouterr().err == ""
