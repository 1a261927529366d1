"""A model's answers as csv."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

import torch
from torch import Tensor

#: What makes probabilities of outputs; `shares` are of what outputs between 0 and 1 add up to.
Form = Literal["softmax", "sigmoid", "shares", "none"]

#: Losses that have outputs come near 1 for the right class, and near 0 for the others.
_OF_ONES_AND_ZEROS = ("squared-error", "absolute-error")


@dataclass(frozen=True)
class Answers:
    """A model's outputs, a row a sample, and what they are to be written with.

    Samples may have files. Of those, `places` says which ones the outputs are for, if not for all:
    the others could not be read.
    """

    outputs: Tensor
    classes: tuple[str, ...]
    form: Form = "softmax"
    files: Sequence[str] | None = None
    places: Sequence[int] | None = None

    def save(self, path: Path) -> None:
        """Write the answers to a file, which appears whole or not at all."""
        beside = path.with_name(path.name + ".partial")
        with beside.open("w", newline="", encoding="utf-8") as file:
            self.write(file)
        beside.replace(path)

    def write(self, file: TextIO) -> None:
        """One row a sample: its index, its file if it has one, its likeliest class, and the
        probability of each class. A file that could not be read has neither.
        """
        writer = csv.writer(file, lineterminator="\n")
        named = () if self.files is None else ("file",)
        writer.writerow(["index", *named, "class", *self.classes])
        count = len(self.outputs)
        answered = dict(zip(self.places or range(count), self._rows(), strict=True))
        nothing = [""] * (1 + len(self.classes))
        for index in range(count if self.files is None else len(self.files)):
            name = () if self.files is None else (self.files[index],)
            writer.writerow([index, *name, *answered.get(index, nothing)])

    def _rows(self) -> Iterator[list[str]]:
        probabilities = _probabilities(self.outputs, self.form).tolist()
        # By outputs: probabilities can be the same where those are not.
        for best, row in zip(self.outputs.argmax(1).tolist(), probabilities, strict=True):
            yield [self.classes[best], *(f"{value:.6g}" for value in row)]


def probability_form(loss: str, output_activation: str | None = None) -> Form:
    """What makes probabilities of a model's outputs, by what it was trained for.

    Under binary cross-entropy, and with sigmoids of its own, every class is a yes or no by itself;
    else the probabilities of a sample add up to 1.
    """
    if loss == "binary-cross-entropy":
        return "sigmoid"
    if output_activation == "sigmoid" and loss != "cross-entropy":
        return "none"
    return "shares" if loss in _OF_ONES_AND_ZEROS else "softmax"


def _probabilities(outputs: Tensor, form: Form) -> Tensor:
    precise = outputs.to(torch.float64)
    if form == "none":
        return precise
    if form == "shares":
        return _shares(precise.clamp(0, 1))
    return precise.sigmoid() if form == "sigmoid" else precise.softmax(1)


def _shares(outputs: Tensor) -> Tensor:
    """Each output as a share of their sum; all the same where nothing speaks for any class."""
    total = outputs.sum(1, keepdim=True)
    return torch.where(total > 0, outputs / total, 1 / outputs.shape[1])
