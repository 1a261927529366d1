"""numpy arrays of a user's own as tensors, and their labels as targets."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from phalanx.data.tables.cells import LARGEST_NUMBER
from phalanx.data.tables.class_count import MOST_LABELS, check_class_count
from phalanx.errors import DataError

Array = np.ndarray[Any, Any]

# Types of numbers that numpy has and torch does not compute with, and the ones that hold them.
_WIDER = {"u2": np.int32, "u4": np.int64, "u8": np.float64}
_KINDS = "biuf"


def check_numbers(dtype: np.dtype[Any], *, where: str) -> None:
    """Raise a DataError unless samples can be of this type."""
    if dtype.kind not in _KINDS or dtype.itemsize > 8:
        raise DataError(f"{where}: holds {dtype}, not numbers of at most 64 bits")


def as_tensor(array: Array) -> Tensor:
    """The array as a tensor: the same memory if torch knows its type and order of bytes."""
    native = array.dtype.newbyteorder("=")
    wider = _WIDER.get(native.str[1:])
    return torch.from_numpy(np.ascontiguousarray(array, native if wider is None else wider))


def scale_of(dtype: np.dtype[Any]) -> float:
    """What brings stored values to a model's range: bytes are taken to be pixels."""
    return 1 / 255 if dtype == np.uint8 else 1.0


def check_finite(inputs: Array, *, where: str) -> None:
    """Raise a DataError with the first sample that has a value which is no number."""
    if inputs.dtype.kind == "f" and not (finite := is_finite(inputs)).all():
        at = np.argwhere(~finite)[0].tolist()
        raise DataError(f"{where}: value {inputs[tuple(at)]} at {at}; only finite numbers will do")


def is_finite(values: Array) -> Array:
    """Which values are numbers that models compute with; larger ones are infinite to them."""
    if values.dtype.itemsize <= 4:
        return np.asarray(np.isfinite(values))
    return np.asarray(np.abs(values) <= LARGEST_NUMBER)  # which a NaN is not


def as_labels(array: Array, *, where: str, first: int) -> Tensor:
    """Whole numbers, counted from `first`, as targets that count from 0.

    A DataError for any other number, and for more classes than there may be.
    """
    check_numbers(array.dtype, where=where)
    if array.size != max(array.shape, default=0):
        raise DataError(f"{where}: shape {array.shape}; one class a sample is needed, as one row")
    flat = array.reshape(-1)
    wrong = np.flatnonzero(~np.isfinite(flat) | (flat != np.floor(flat)) | (flat < first))
    if wrong.size:
        raise DataError(
            f"{where}: {flat[wrong[0]]} at position {wrong[0]}; classes are whole numbers "
            f"from {first}, other numbers are for --task regression"
        )
    largest = flat.max(initial=first)
    check_class_count(
        float(largest) - first + 1,
        MOST_LABELS,
        where=where,
        seen=f"the largest label is {largest}",
        fix=f"number them from {first}, without gaps",
    )
    return torch.from_numpy(flat.astype(np.int64) - first)


def check_counts(inputs: int, targets: int, *, files: tuple[Path | str, Path | str]) -> None:
    """Raise a DataError unless there is one target an input, and one at all."""
    if inputs != targets:
        raise DataError(f"{files[0]} has {inputs:,} samples, {files[1]} {targets:,} targets")
    if not inputs:
        raise DataError(f"{files[0]}: no samples in it")
