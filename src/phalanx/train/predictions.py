"""A model's answers as csv."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TextIO

import torch
from torch import Tensor

Form = Literal["softmax", "sigmoid", "none"]


def save_predictions(
    path: Path,
    outputs: Tensor,
    classes: tuple[str, ...],
    *,
    form: Form = "softmax",
    files: Sequence[str] | None = None,
) -> None:
    """Write the answers to a file, which appears whole or not at all."""
    beside = path.with_name(path.name + ".partial")
    with beside.open("w", newline="", encoding="utf-8") as file:
        write_predictions(file, outputs, classes, form=form, files=files)
    beside.replace(path)


def write_predictions(
    file: TextIO,
    outputs: Tensor,
    classes: tuple[str, ...],
    *,
    form: Form = "softmax",
    files: Sequence[str] | None = None,
) -> None:
    """One row a sample: its index, its file if it has one, its likeliest class, and the
    probability of each class.
    """
    writer = csv.writer(file, lineterminator="\n")
    named = () if files is None else ("file",)
    writer.writerow(["index", *named, "class", *classes])
    names: Iterable[tuple[str, ...]] = (
        ((),) * len(outputs) if files is None else ((name,) for name in files)
    )
    rows = zip(names, _probabilities(outputs, form).tolist(), strict=True)
    for index, (name, row) in enumerate(rows):
        best = max(range(len(row)), key=row.__getitem__)
        writer.writerow([index, *name, classes[best], *(f"{value:.6g}" for value in row)])


def probability_form(loss: str, output_activation: str | None = None) -> Form:
    """What makes probabilities of a model's outputs, by what it was trained for.

    Under binary cross-entropy, and with sigmoids of its own, every class is a yes or no by itself;
    else the probabilities of a sample add up to 1.
    """
    if loss == "binary-cross-entropy":
        return "sigmoid"
    return "none" if output_activation == "sigmoid" and loss != "cross-entropy" else "softmax"


def _probabilities(outputs: Tensor, form: Form) -> Tensor:
    precise = outputs.to(torch.float64)
    if form == "none":
        return precise
    return precise.sigmoid() if form == "sigmoid" else precise.softmax(1)
