"""Samples as a Python program has them, for a trained model: arrays, images, rows, files.

They become what files of the same would: `phalanx predict --input` gives the same answers.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from phalanx.data.arrays import as_tensor, check_finite, check_numbers
from phalanx.data.channels import as_stored
from phalanx.data.formats.image_folder import SUFFIXES as IMAGES
from phalanx.data.split import Split
from phalanx.data.tables.table import Table, make_column
from phalanx.errors import DataError, UsageError
from phalanx.inference.input_files import check_input
from phalanx.inference.user_samples import (
    UserSamples,
    arrays_like,
    images_like,
    read_samples,
    rows_like,
)
from phalanx.inference.user_table import Reading, encode
from phalanx.runs.record import Record
from phalanx.settings.table import Settings

#: What messages call samples that come from no file.
_WHERE = "samples"


def as_samples(samples: Any, *, like: Split, settings: Settings, recorded: Record) -> UserSamples:
    """What a user gives, as samples that are as those of the split that a run was trained on.

    An array of one sample is one, and so are one image and one row.
    """
    if isinstance(samples, str | Path):
        path = Path(samples)
        check_input(path, called=_WHERE)
        return read_samples(
            path,
            like=like,
            settings=settings,
            form=recorded.table,
            classes=recorded.classes or (),
        )
    if _is_image(samples):
        samples = [samples]
    columns = _columns(samples)
    if columns is not None:
        table = encode(_table(columns), recorded.table, Reading())
        return rows_like(table, where=_WHERE, like=like)
    if isinstance(samples, list | tuple) and samples:
        if isinstance(samples[0], str | Path):
            return _image_files([*map(str, samples)], like=like, settings=settings)
        if _is_image(samples[0]):
            return _arrays(_image_bytes(samples, like=like, settings=settings), like=like)
        if isinstance(samples[0], Tensor):
            samples = torch.stack(samples)
    return _arrays(samples, like=like)


def _arrays(samples: Any, *, like: Split) -> UserSamples:
    inputs = _as_tensor(samples)
    alone = inputs[None]
    if tuple(as_stored(alone, like.stored_shape).shape[1:]) == like.stored_shape:
        inputs = alone
    if inputs.dim() == 0:
        raise DataError(f"{_WHERE}: one number, not samples")
    return arrays_like(inputs, where=_WHERE, like=like)


def _as_tensor(samples: Any) -> Tensor:
    """Numbers as a tensor in memory of this process, if a model can compute with all of them."""
    if isinstance(samples, Tensor) and not samples.is_complex():
        tensor = samples.detach().cpu()
        in_numpy = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
        check_finite(in_numpy.numpy(), where=_WHERE)
        return tensor
    try:
        array = np.asarray(samples)
    except (ValueError, TypeError) as error:  # rows of several lengths
        raise DataError(f"{_WHERE}: no array can be made of them: {error}") from error
    check_numbers(array.dtype, where=_WHERE)
    check_finite(array, where=_WHERE)
    return as_tensor(array).reshape(array.shape)  # NumPy has made one number a row of one


def _is_image(value: object) -> bool:
    """Whether this is an image of Pillow's, which need not be installed."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(value, pillow.Image)


def _image_bytes(images: Sequence[Any], *, like: Split, settings: Settings) -> Any:
    """Images as the training's were stored: in their size and colours, or as they are."""
    if settings.dataset != "images":
        return np.stack([np.asarray(image) for image in images])
    from phalanx.data.formats.image_files import as_bytes

    height, width = like.stored_shape[1:]
    return np.stack([as_bytes(image, (height, width)) for image in images])


def _image_files(files: list[str], *, like: Split, settings: Settings) -> UserSamples:
    for file in files:
        check_input(Path(file), called=_WHERE)
        if settings.dataset != "images" or not file.lower().endswith(IMAGES):
            raise UsageError(
                f"{_WHERE}: a list of files is one of images, for models trained on data set "
                f"images, and {file} is none or this model is of another: give one file"
            )
    split = images_like(files, like=like)
    return UserSamples(split=split, places=range(len(files)), count=len(files))


def _columns(samples: Any) -> dict[str, list[str]] | None:
    """The cells of rows or columns by name; None if samples are neither."""
    if hasattr(samples, "to_pydict"):  # a table of pyarrow's
        samples = samples.to_pydict()
    elif hasattr(samples, "columns") and not isinstance(samples, Mapping):  # a data frame
        samples = {name: list(samples[name]) for name in samples.columns}
    if isinstance(samples, Mapping):
        if samples and not any(_is_many(value) for value in samples.values()):
            samples = {name: [value] for name, value in samples.items()}
        if wrong := [name for name, value in samples.items() if not _is_many(value)]:
            raise DataError(f"{_WHERE}: column '{wrong[0]}' holds one value, others have several")
        return {str(name): [*map(_cell, values)] for name, values in samples.items()}
    if isinstance(samples, list | tuple) and samples and isinstance(samples[0], Mapping):
        names = dict.fromkeys(name for row in samples for name in row)
        return {str(name): [_cell(row.get(name)) for row in samples] for name in names}
    return None


def _is_many(value: object) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes)


def _cell(value: Any) -> str:
    """A value as it would be written to a file of text; what is missing is empty."""
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        number = float(value)  # as whole numbers with gaps are in a data frame
        return str(int(number)) if number.is_integer() else repr(number)
    return str(value)


def _table(columns: dict[str, list[str]]) -> Table:
    counts = {name: len(cells) for name, cells in columns.items()}
    rows = max(counts.values(), default=0)
    if rows == 0:
        raise DataError(f"{_WHERE}: no rows in them")
    if short := [name for name, count in counts.items() if count != rows]:
        raise DataError(f"{_WHERE}: column '{short[0]}' has {counts[short[0]]} rows, others {rows}")
    return Table(
        Path(_WHERE),
        tuple(make_column(name, cells) for name, cells in columns.items()),
        tuple(range(1, rows + 1)),
        range(rows),
        rows,
    )
