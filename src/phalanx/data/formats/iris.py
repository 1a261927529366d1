"""Iris: 150 flowers of three species, four measures each, embedded in the package."""

import csv
from pathlib import Path

import torch

from phalanx.data.split import Dataset, Split
from phalanx.data.transforms import Normalise

SPECIES = ("setosa", "versicolor", "virginica")
MEASURES = ("sepal_length", "sepal_width", "petal_length", "petal_width")

# Species stand in blocks of 50, so every fifth row gives the test part ten flowers of each.
_TEST_EVERY = 5


def load(folder: Path) -> Dataset:
    """120 flowers to train on, 30 to test: centimetres, standardised by the training part.

    They are stored as they were measured, so that a trained model takes flowers as people do.
    """
    with (folder / "iris.csv").open(encoding="ascii", newline="") as file:
        rows = list(csv.DictReader(file))
    inputs = torch.tensor(
        [[float(row[measure]) for measure in MEASURES] for row in rows], dtype=torch.float64
    )
    targets = torch.tensor([SPECIES.index(row["species"]) for row in rows])
    testing = torch.arange(len(rows)) % _TEST_EVERY == _TEST_EVERY - 1
    deviation, mean = torch.std_mean(inputs[~testing], dim=0, correction=0)
    standardise = Normalise(mean, deviation, precision=torch.float64)
    train, test = (
        Split(inputs[part], targets[part], transforms=[standardise]) for part in (~testing, testing)
    )
    return Dataset("iris", train, test, SPECIES)
