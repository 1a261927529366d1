"""The targets of a user's own array: classes, numbers, or labels that are each 0 or 1."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from phalanx.data.arrays import Array, check_finite, check_numbers
from phalanx.data.formats.labels import Labels, in_common, read_labels
from phalanx.data.targets.tasks import (
    CLASSIFICATION,
    MULTI_LABEL,
    REGRESSION,
    task_of_numbers,
    unsure,
)
from phalanx.errors import DataError

_WORDS = "US"
_WHOLE = "biu"


class Targets(NamedTuple):
    """The task, the names of classes or columns, and the targets: [n], or [n, k] but for classes.

    Columns of numbers have no names.
    """

    task: str
    classes: tuple[str, ...]
    targets: Tensor


def read_targets(array: Array, *, where: str, asked: str | None = None) -> Targets:
    """The targets of an array [n] or [n, k], of the task `asked` for or the one that shows.

    A DataError for an array that the task cannot have, and where nobody can tell the task.
    """
    task = asked or task_of(array, where=where)
    if task == CLASSIFICATION:
        return Targets(task, *read_labels(array, where=where))
    return Targets(task, (), read_numbers(array, where=where, task=task))


def alike(train: Targets, test: Targets) -> tuple[Targets, Targets]:
    """The targets of two parts, of which both have the same task, in the same classes."""
    if train.task != CLASSIFICATION:
        return train, test
    ours, theirs = in_common(Labels(*train[1:]), Labels(*test[1:]))
    return Targets(train.task, *ours), Targets(test.task, *theirs)


def read_numbers(array: Array, *, where: str, task: str) -> Tensor:
    """The numbers of a regression, or 0 and 1 for each label, [n, k]."""
    if array.dtype.kind in _WORDS:
        raise DataError(f"{where}: holds words, and --task {task} needs numbers")
    check_numbers(array.dtype, where=where)
    if array.ndim > 2 or not array.shape:
        raise DataError(
            f"{where}: shape {tuple(array.shape)}; --task {task} needs a number, or a row of them, "
            "a sample"
        )
    check_finite(array, where=where)
    rows = array.reshape(-1, 1) if _is_flat(array) else array
    if task == MULTI_LABEL and not _are_labels(rows):
        row = np.argwhere((rows != 0) & (rows != 1))[0, 0]
        raise DataError(f"{where}: row {row} has other numbers than 0 and 1, which labels are")
    return torch.from_numpy(rows.astype(np.float64 if task == REGRESSION else np.float32))


def task_of(array: Array, *, where: str) -> str:
    """The task that an array shows; a DataError if it might be several."""
    if array.dtype.kind in _WORDS:
        return CLASSIFICATION
    check_numbers(array.dtype, where=where)
    check_finite(array, where=where)
    if not _is_flat(array):
        return _task_of_rows(array, where=where)
    flat = array.reshape(-1)
    values, fractions = len(np.unique(flat)), bool((flat != np.floor(flat)).any())
    task = task_of_numbers(
        values=values,
        samples=len(flat),
        fractions=fractions,
        labels=array.dtype.kind in _WHOLE,
    )
    if task is None:
        kind = "different numbers" if fractions else "different whole numbers"
        raise DataError(unsure(where, f"holds {values:,} {kind} in {len(flat):,} samples"))
    return task


def _task_of_rows(array: Array, *, where: str) -> str:
    if array.ndim != 2:
        return CLASSIFICATION  # which refuses it, or knows better
    if _are_labels(array):
        return CLASSIFICATION if bool(((array != 0).sum(1) == 1).all()) else MULTI_LABEL
    values, fractions = len(np.unique(array)), bool((array != np.floor(array)).any())
    task = task_of_numbers(values=values, samples=len(array), fractions=fractions)
    shares = bool((array >= 0).all() and np.allclose(array.sum(1), 1, atol=1e-3))
    if task == REGRESSION and fractions and not shares:
        return REGRESSION
    seen = "add up to 1 in each row" if shares else f"are {values:,} different ones"
    raise DataError(
        unsure(
            where, f"holds numbers of shape {tuple(array.shape)} that {seen}", tasks=[REGRESSION]
        )
    )


def _is_flat(array: Array) -> bool:
    return bool(array.size == max(array.shape, default=0))


def _are_labels(array: Array) -> bool:
    return bool(((array == 0) | (array == 1)).all())
