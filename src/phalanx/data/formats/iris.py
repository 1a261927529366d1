"""Iris: 150 flowers of three species, four measures each, embedded in the package."""

import csv
from pathlib import Path

import torch
from torch import Tensor

from phalanx.data.options import TEST_SPLIT
from phalanx.data.split import Dataset, Split
from phalanx.data.transforms import Normalise
from phalanx.errors import UsageError

SPECIES = ("setosa", "versicolor", "virginica")
MEASURES = ("sepal_length", "sepal_width", "petal_length", "petal_width")


def load(folder: Path, *, test_split: float = TEST_SPLIT.default) -> Dataset:
    """120 flowers to train on, 30 to test: centimetres, standardised by the training part.

    Another share to test with has as many of each species, too, as far as it can; 0 tests on the
    flowers that are trained on. They are stored as they were measured, so that a trained model
    takes flowers as people do.
    """
    with (folder / "iris.csv").open(encoding="ascii", newline="") as file:
        rows = list(csv.DictReader(file))
    inputs = torch.tensor(
        [[float(row[measure]) for measure in MEASURES] for row in rows], dtype=torch.float64
    )
    targets = torch.tensor([SPECIES.index(row["species"]) for row in rows])
    testing = _evenly(len(rows), count=_count(len(rows), test_split))
    if not testing.any():
        part = Split(inputs, targets, transforms=[_standardise(inputs)])
        return Dataset("iris", part, part, SPECIES)
    standardise = _standardise(inputs[~testing])
    train, test = (
        Split(inputs[part], targets[part], transforms=[standardise]) for part in (~testing, testing)
    )
    return Dataset("iris", train, test, SPECIES)


def _count(flowers: int, share: float) -> int:
    """How many to test with; of each species two are left to train on."""
    count = round(flowers * share)
    most = flowers - 2 * len(SPECIES)
    if count > most or (count == 0 and share > 0):
        raise UsageError(
            f"--test-split {share:g} of {flowers} flowers leaves none to "
            f"{'test with' if count == 0 else 'train on'}: take another share, such as 0.2"
        )
    return count


def _evenly(rows: int, *, count: int) -> Tensor:
    """Which of so many rows are among `count` that are as far apart as can be.

    Species stand in blocks of 50, so that every fifth row is ten flowers of each.
    """
    places = torch.arange(rows + 1) * count // rows
    return places[1:] > places[:-1]


def _standardise(inputs: Tensor) -> Normalise:
    deviation, mean = torch.std_mean(inputs, dim=0, correction=0)
    return Normalise(mean, deviation, precision=torch.float64)
