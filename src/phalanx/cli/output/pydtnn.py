"""A training as PyDTNN shows it: its words for layers, its lines for epochs, its messages."""

import csv
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import torch
from rich.box import SQUARE
from rich.console import Console
from rich.table import Table

from phalanx import models
from phalanx.cli.output.console import wide_console
from phalanx.cli.output.display import Display
from phalanx.compat.pydtnn import Translation
from phalanx.data.batches import batch_count
from phalanx.models.table import LayerRow, Sizes, layer_rows
from phalanx.runs.writing import writing
from phalanx.runs.written import WrittenRun
from phalanx.train.metrics import Meter, Metrics
from phalanx.train.progress import Progress
from phalanx.train.session import Session
from phalanx.whole_files import whole_file

_COLUMNS = ("Layer", "Type", "#Params", "Output shape", "Weights shape", "Padding", "Stride")
_TYPES = {
    "Conv2d": "Conv2D",
    "MaxPool2d": "Pool2D",
    "AvgPool2d": "Pool2D",
    "Linear": "FC",
    "ReLU": "Relu",
    "BatchNorm1d": "BatchNorm",
    "BatchNorm2d": "BatchNorm",
}


def show_model(
    name: str, options: Mapping[str, object], *, input_shape: tuple[int, ...], classes: int
) -> None:
    """Print the table of a model that is built without memory for its weights."""
    with torch.device("meta"):
        model = models.build(name, input_shape=input_shape, classes=classes, options=options)
        rows = layer_rows(model, input_shape)
    wide_console().print(_table(rows, input_shape, classes))


def _table(rows: list[LayerRow], input_shape: tuple[int, ...], classes: int) -> Table:
    table = Table(box=SQUARE, show_lines=True)
    for column in _COLUMNS:
        table.add_column(column, justify="center")
    layers = [
        ("Input", "0", _text(input_shape), "", "", ""),
        *(_cells(row) for row in rows if row.type != "Flatten"),  # which is a part of FC there
        ("Softmax", "0", _text((classes,)), "", "", ""),
    ]
    for number, cells in enumerate(layers):
        table.add_row(str(number), *cells)
    return table


def _cells(row: LayerRow) -> tuple[str, ...]:
    weights = row.weight_shape
    if weights is not None and len(weights) == 2:
        weights = weights[::-1]  # PyDTNN multiplies samples by weights, torch weights by samples
    return (
        *(_TYPES.get(row.type, row.type), str(row.parameters)),
        *(_text(row.output_shape), _text(weights)),
        *(_text(_one(row.padding)), _text(_one(row.stride))),
    )


def _one(sizes: Sizes | None) -> Sizes | None:
    """The same size for height and width, said once."""
    if isinstance(sizes, tuple) and len(set(sizes)) == 1:
        return sizes[0]
    return sizes


def _text(value: Sizes | None) -> str:
    return "" if value is None else str(value)


#: How PyDTNN shows what it measures: an abbreviation, accuracies in per cent.
_SHORT = {
    "accuracy": "acc",
    "categorical_accuracy": "acc",
    "categorical_cross_entropy": "cro",
    "binary_cross_entropy": "bce",
    "categorical_hinge": "hin",
    "categorical_mse": "mse",
    "categorical_mae": "mae",
    "regression_mse": "mse",
    "regression_mae": "mae",
}
_BAR = 16
#: Seconds between two moves of the bar on a terminal.
_REFRESH = 0.1


def values(metrics: Metrics, shown: Mapping[str, str]) -> dict[str, float]:
    """What is shown, by PyDTNN's names; accuracies in per cent."""
    ours = {"loss": metrics.loss, "accuracy": metrics.accuracy, **metrics.more}
    found = {name: ours.get(own) for name, own in shown.items()}
    return {
        name: 100 * value if shown[name] == "accuracy" else value
        for name, value in found.items()
        if value is not None
    }


def in_words(metrics: Metrics, shown: Mapping[str, str], *, before: str = "") -> str:
    """The same as PyDTNN has it in a line: `val_acc: 91.65%, val_cro: 0.3004644`."""
    return ", ".join(
        f"{before}{_SHORT[name]}: {value:5.2f}%"
        if shown[name] == "accuracy"
        else f"{before}{_SHORT[name]}: {value:.7f}"
        for name, value in values(metrics, shown).items()
    )


@final
class PyDTNNDisplay(Display):
    """Its messages in its order; our run's folder comes last."""

    def __init__(self, console: Console, translation: Translation) -> None:
        super().__init__(console)
        self._shown, self._later = translation.shown, translation.later
        self._evaluates = bool(translation.parameters["evaluate"])
        history = translation.parameters.get("history_file")
        self._history = None if history is None else Path(str(history))
        self._lines = EpochLines(console, self._shown)
        #: Samples to train on and to validate with, which PyDTNN's throughput is of.
        self._samples = 0

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        try:
            yield self._lines
        finally:
            self._lines.close()

    def introduce(self, session: Session) -> None:
        settings, count = session.settings, session.training_count
        steps = settings.steps_per_epoch or batch_count(count, session.batch_size)
        self._lines.samples = min(count, steps * session.batch_size)
        self._samples = self._lines.samples
        if not settings.test_as_validation:
            self._samples += len(session.dataset.train) - count

    def tested(self, metrics: Metrics) -> None:
        self.say("**** Evaluating on test dataset...")
        self.say(in_words(metrics, self._shown, before="test_"))

    def conclude(self, result: dict[str, Any], run: WrittenRun) -> None:
        seconds, epochs = result["seconds"], result["epochs"]
        if epochs:
            self.say("**** Done..." + ("" if self._later else " and thanks for all the fish!!!"))
            self.say(f"Time: {seconds:.2f} s")
            if self._later:
                self.say(f"Time per epoch: {seconds / epochs:.2f} s")
            self.say(f"Throughput: {self._samples * epochs / seconds:.2f} samples/s")
        if self._history is not None:
            self._write_history(self._history, run.path / "history.csv")
        if self._evaluates or not epochs:
            self.tested(Metrics(**result["test"]))
        self.say(f"weights sha256: {result['weights_sha256']}")
        self.say(f"run: {run.path}")

    def _write_history(self, path: Path, ours: Path) -> None:
        """A line an epoch, counted from 0: what is shown of the training, and of the validation."""
        with ours.open(newline="") as file:
            rows = list(csv.DictReader(file))
        lines = []
        for number, row in enumerate(rows):
            found = [
                row.get(f"{part}{own}")
                for part in ("", "validation_")
                for own in self._shown.values()
            ]
            own = [*self._shown.values()] * 2
            numbers = [
                float(value) * (100 if name == "accuracy" else 1)
                for name, value in zip(own, found, strict=True)
                if value
            ]
            lines.append(" ".join([f"{number:3d}", *(f"{value:20.4f}" for value in numbers)]))
        with writing(path), whole_file(path) as beside:
            beside.write_text("".join(f"{line}\n" for line in lines))


@final
class EpochLines(Progress):
    """A line an epoch, with a bar that moves while it lasts where there is a terminal."""

    def __init__(self, console: Console, shown: Mapping[str, str]) -> None:
        self._console, self._shown = console, shown
        #: Of an epoch, once they are known.
        self.samples = 0
        self._label = ""
        self._begun = self._next = 0.0
        self._open = False

    def start(self, epoch: int, epochs: int, *, steps: int) -> None:
        if not self._label:
            self._say("**** Training...")
        self._label = f"Epoch {epoch:{len(str(epochs))}}/{epochs}"
        self._begun = time.perf_counter()

    def step(self, samples: int, meter: Meter) -> None:
        now = time.perf_counter()
        if self._console.is_terminal and now >= self._next:
            self._next = now + _REFRESH
            self._draw(self._line(samples, in_words(meter.mine, self._shown)))

    def finish(self, train: Metrics, validation: Metrics | None, samples_per_second: float) -> None:
        told = in_words(train, self._shown)
        if validation is not None:
            told += f", {in_words(validation, self._shown, before='val_')}"
        self.close()
        self._say(self._line(self.samples, told, rate=samples_per_second))

    def close(self) -> None:
        """Leave no half of a line behind."""
        if self._open:
            self._draw("")
            self._open = False

    def _line(self, samples: int, told: str, *, rate: float | None = None) -> str:
        seconds = time.perf_counter() - self._begun
        rate = samples / max(seconds, 1e-9) if rate is None else rate
        share = samples / self.samples if self.samples else 1.0
        bar = "█" * round(share * _BAR)
        left = max(self.samples - samples, 0) / max(rate, 1e-9)
        return (
            f"{self._label}: {share:4.0%}|{bar:{_BAR}}| {samples}/{self.samples} "
            f"[{_clock(seconds)}<{_clock(left)}, {rate:.2f} samples/s, {told}]"
        )

    def _draw(self, text: str) -> None:
        """In place of what the terminal's line has, as much as it holds."""
        self._open = True
        self._console.file.write(f"\r\x1b[K{text[: self._console.width - 1]}")
        self._console.file.flush()

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
