"""What a user's own array says of classes: whole numbers, words, or a 1 in the column of the class.

Classes are those that are there, under the names that the array gives them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from phalanx.data.arrays import Array, check_numbers
from phalanx.data.tables.class_count import MOST_LABELS, MOST_VALUES, check_class_count
from phalanx.errors import DataError

_WORDS = "US"


class Labels(NamedTuple):
    """The classes in their order, and the place among them that each sample has."""

    classes: tuple[str, ...]
    targets: Tensor


def read_labels(array: Array, *, where: str) -> Labels:
    """The labels of an array [n], or of one-hot rows [n, classes].

    A DataError for numbers that are not whole, and for more classes than there may be.
    """
    if array.size != max(array.shape, default=0):
        return _one_hot(array, where=where)
    if array.dtype.kind in _WORDS:
        return _words(array.reshape(-1), where=where)
    check_numbers(array.dtype, where=where)
    return _whole_numbers(array.reshape(-1), where=where)


def in_common(train: Labels, test: Labels) -> tuple[Labels, Labels]:
    """Labels of two parts, counted among the classes of both."""
    if train.classes == test.classes:
        return train, test
    names = {*train.classes, *test.classes}
    numbers = all(name.lstrip("-").isdecimal() for name in names)
    classes = tuple(sorted(names, key=int) if numbers else sorted(names))
    return _among(classes, train), _among(classes, test)


def _among(classes: tuple[str, ...], labels: Labels) -> Labels:
    place = torch.tensor([classes.index(name) for name in labels.classes])
    return Labels(classes, place[labels.targets])


def _whole_numbers(flat: Array, *, where: str) -> Labels:
    wrong = np.flatnonzero(~np.isfinite(flat) | (flat != np.floor(flat)))
    if wrong.size:
        raise DataError(
            f"{where}: {flat[wrong[0]]} at position {wrong[0]}; classes are whole numbers, words "
            "or one-hot rows, other numbers are for --task regression"
        )
    names = [str(int(one)) for one in np.unique(flat)]
    # Where hardly a number comes twice, they are more likely measured than classes.
    most = MOST_LABELS if 2 * len(names) <= len(flat) else MOST_VALUES
    return _labels(flat, names, most=most, where=where)


def _words(flat: Array, *, where: str) -> Labels:
    try:
        words = np.strings.decode(flat, "utf-8") if flat.dtype.kind == "S" else flat
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: words that are not UTF-8: save them as str: {error}") from error
    blank = np.flatnonzero(np.strings.strip(words) == "")
    if blank.size:
        raise DataError(f"{where}: no class at position {blank[0]}: leave out such samples")
    return _labels(words, [str(one) for one in np.unique(words)], most=MOST_VALUES, where=where)


def _labels(flat: Array, names: Sequence[str], *, most: int, where: str) -> Labels:
    check_class_count(
        len(names),
        most,
        where=where,
        seen=f"{len(names):,} values",
        fix="give each sample one of a few classes",
    )
    _, places = np.unique(flat, return_inverse=True)
    return Labels(tuple(names), torch.from_numpy(places.reshape(-1).astype(np.int64)))


def _one_hot(array: Array, *, where: str) -> Labels:
    """All columns are classes, whether a row has them or not: there is one for each."""
    shape = tuple(array.shape)
    if array.ndim != 2 or array.dtype.kind in _WORDS:
        raise DataError(f"{where}: shape {shape}; one class a sample is needed, or one-hot rows")
    check_numbers(array.dtype, where=where)
    ones = array == 1
    wrong = np.flatnonzero((ones.sum(1) != 1) | ((array != 0).sum(1) != 1))
    if wrong.size:
        raise DataError(
            f"{where}: shape {shape}, but row {wrong[0]} is not one-hot, a single 1 among zeros; "
            "one class a sample is needed, or such rows"
        )
    classes = tuple(map(str, range(shape[1])))
    return Labels(classes, torch.from_numpy(ones.argmax(1).astype(np.int64)))
