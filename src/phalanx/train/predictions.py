"""Samples of a user's own in, answers as csv out."""

import csv
from pathlib import Path
from typing import TextIO

import numpy
import torch
from torch import Tensor

from phalanx.data.split import Split
from phalanx.errors import DataError


def read_samples(path: Path, *, like: Split) -> Split:
    """The samples of a .npy file, which must be shaped like those of a split."""
    try:
        values = numpy.load(path, allow_pickle=False)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    except (ValueError, EOFError) as error:
        raise DataError(f"{path}: not a .npy file of plain numbers: {error}") from error
    if not isinstance(values, numpy.ndarray) or values.dtype.kind not in "biuf":
        raise DataError(f"{path}: not one array of numbers")
    if values.shape[1:] != like.input_shape or len(values) == 0:
        wanted = ", ".join(["n", *map(str, like.input_shape)])
        raise DataError(f"{path}: has shape {values.shape}, the model takes ({wanted}), n ≥ 1")
    inputs = torch.from_numpy(numpy.ascontiguousarray(values, values.dtype.newbyteorder("=")))
    return Split(inputs, torch.zeros(len(values), dtype=torch.int64), like.scale)


def write_predictions(file: TextIO, outputs: Tensor, classes: tuple[str, ...]) -> None:
    """One row a sample: its index, its likeliest class, and the probability of each class."""
    probabilities = outputs.to(torch.float64).softmax(1)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["index", "class", *classes])
    for index, row in enumerate(probabilities.tolist()):
        best = max(range(len(row)), key=row.__getitem__)
        writer.writerow([index, classes[best], *(f"{value:.6g}" for value in row)])
