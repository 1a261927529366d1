"""Samples of a user's own, for a trained model to answer: read as those of its training were.

Arrays are what the data set stores: a scale, a resize or a normalisation comes after. Images and
tables are what a user has; they go through the same steps as the training's images and tables did.
"""

import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from phalanx.data.arrays import Array, as_tensor, check_finite, check_numbers
from phalanx.data.channels import with_channels_first
from phalanx.data.formats.image_folder import SUFFIXES as IMAGES
from phalanx.data.formats.npy import read_header
from phalanx.data.packages import need
from phalanx.data.rows import RowFile, Rows
from phalanx.data.source import Source
from phalanx.data.split import Split
from phalanx.data.tables.form import TableForm
from phalanx.errors import DataError, UsageError
from phalanx.inference.input_files import is_table
from phalanx.inference.user_table import encode_like_training, plain_numbers
from phalanx.settings.table import Settings

#: What the inputs in a .npz file may be called, in capitals or not; the first that is there counts.
_ARRAYS = ("inputs", "x", "x_test", "x_train")


@dataclass(frozen=True)
class UserSamples:
    """Samples in their order, and for images the names of their files."""

    split: Split
    files: tuple[str, ...] | None = None


def read_samples(
    path: Path, *, like: Split, settings: Settings, form: TableForm | None = None
) -> UserSamples:
    """The samples at a path, which are to be as those of a split that a run was trained on.

    Models that were trained on a table take tables of its `form`.
    """
    if path.is_dir() or path.name.lower().endswith(IMAGES):
        return _images(path, like=like, settings=settings)
    inputs: Tensor | Source
    if is_table(path):
        inputs = plain_numbers(path) if form is None else encode_like_training(path, form)
        inputs = _shaped(inputs, like)
    else:
        inputs = _archive(path) if path.suffix.lower() == ".npz" else _rows(path)
    return UserSamples(_split(inputs, path=path, like=like))


def _split(inputs: Tensor | Source, *, path: Path, like: Split) -> Split:
    if _shape(inputs) != like.stored_shape:
        inputs = with_channels_first(inputs)  # as the data set does that it was trained on
    shape = _shape(inputs)
    if shape != like.stored_shape or len(inputs) == 0:
        wanted = ", ".join(["n", *map(str, like.stored_shape)])
        there = ", ".join(map(str, (len(inputs), *shape)))
        raise DataError(f"{path}: has shape ({there}), the model takes ({wanted}), n ≥ 1")
    return like.of(inputs, torch.zeros(len(inputs), dtype=torch.int64))


def _shape(inputs: Tensor | Source) -> tuple[int, ...]:
    return tuple(inputs.shape[1:]) if isinstance(inputs, Tensor) else inputs.shape


def _rows(path: Path) -> Source:
    """The samples of a .npy file, read when their turn comes: it may be larger than memory."""
    header = read_header(path)
    check_numbers(header.dtype, where=str(path))
    if not header.shape:
        raise DataError(f"{path}: one number, not samples")
    if header.fortran_order and len(header.shape) > 1:
        raise DataError(f"{path}: stored by columns; save numpy.ascontiguousarray of it")
    file = RowFile(path, header.shape[0], header.start, header.row_bytes)
    return Rows([file], shape=header.shape[1:], dtype=header.dtype)


def _archive(path: Path) -> Tensor:
    """The inputs of a .npz file."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            spelt = {name.lower(): name for name in arrays.files}
            name = next((spelt[wanted] for wanted in _ARRAYS if wanted in spelt), None)
            if name is None:
                there = ", ".join(arrays.files) or "nothing"
                raise DataError(f"{path}: holds {there}; needed are {', '.join(_ARRAYS)} or X")
            array: Array = np.atleast_1d(arrays[name])
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    where = f"{path}: {name}"
    check_numbers(array.dtype, where=where)
    check_finite(array, where=where)
    return as_tensor(array)


def _shaped(rows: Tensor, like: Split) -> Tensor:
    """A table's rows as samples, where each has as many numbers as a sample has."""
    shape = like.stored_shape
    return rows.reshape(-1, *shape) if rows.shape[1] == torch.Size(shape).numel() else rows


def _images(path: Path, *, like: Split, settings: Settings) -> UserSamples:
    if settings.dataset != "images":
        raise UsageError(
            f"--input {path}: image files are for models trained on data set images, and this one "
            f"was trained on {settings.dataset}: give a .npy, .npz or .csv file"
        )
    need("PIL", for_what="Images", called="Pillow")
    from phalanx.data.formats.image_files import ImageFiles

    files = [path.name] if path.is_file() else _image_names(path)
    if not files:
        raise DataError(f"{path}: no images in it ({', '.join(IMAGES)})")
    folder = path.parent if path.is_file() else path
    height, width = like.stored_shape[1:]
    source = ImageFiles(
        [str(folder / one) for one in files],
        size=(height, width),
        skips_unreadable=settings.skip_bad,
    )
    return UserSamples(_split(source, path=path, like=like), tuple(files))


def _image_names(folder: Path) -> list[str]:
    """The images under a folder, as paths from there, in the order of their names."""
    found: list[str] = []
    for inside, folders, names in os.walk(folder):
        folders.sort()
        images = [name for name in sorted(names) if name.lower().endswith(IMAGES)]
        found += [os.path.relpath(os.path.join(inside, name), folder) for name in images]
    return found
