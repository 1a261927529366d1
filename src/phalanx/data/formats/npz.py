"""A user's own numpy arrays: in one .npz file, or as .npy files that may be larger than memory.

Inputs are [n, *shape] of any numbers; bytes are taken to be pixels and scaled to 0..1. Images with
the channels last, or grey ones without a channel, get the channels first. Targets are [n] whole
numbers from 0. Without a test part some samples are held out to test with.
"""

import logging
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from torch import Tensor

from phalanx.data.arrays import (
    Array,
    as_labels,
    as_tensor,
    check_counts,
    check_finite,
    check_numbers,
    scale_of,
)
from phalanx.data.channels import with_channels_first
from phalanx.data.formats.npy import read_header
from phalanx.data.formats.npz_files import Found, find
from phalanx.data.options import TEST_SPLIT
from phalanx.data.rows import RowFile, Rows
from phalanx.data.split import Dataset, Split, part_test
from phalanx.errors import DataError

_log = logging.getLogger(__name__)


def load(path: Path, *, test_split: float = TEST_SPLIT.default, seed: int = 0) -> Dataset:
    """The arrays at `path`; those of .npy files stay on disk, those of a .npz are read whole."""
    found = find(path)
    read = _from_folder if found.is_folder else _from_archive
    stored = read(found, found.names.train)
    train = _channels_first(stored)
    if train is not stored:
        _log.info(
            "npz: samples of %s are images of shape %s, taken as %s: channels first",
            *(found.path, stored.stored_shape, train.stored_shape),
        )
    if found.names.test is None:
        train, test = part_test(train, test_split, seed=seed)
    else:
        test = _channels_first(read(found, found.names.test))
        _check_alike(train, test, found)
    classes = int(max(train.targets.max(), test.targets.max())) + 1
    return Dataset("npz", train, test, tuple(map(str, range(classes))))


def _from_archive(found: Found, names: tuple[str, str]) -> Split:
    inputs, targets = (_read(found.path, name) for name in names)
    where = f"{found.path}: {names[0]}"
    check_numbers(inputs.dtype, where=where)
    check_finite(inputs, where=where)
    labels = as_labels(targets, where=f"{found.path}: {names[1]}")
    check_counts(len(inputs), len(labels), files=(where, names[1]))
    return Split(as_tensor(inputs), labels, scale_of(inputs.dtype))


def _read(path: Path, name: str) -> Array:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            array: Array = np.atleast_1d(arrays[name])
            return array
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: {name} cannot be read: {error}") from error


def _from_folder(found: Found, names: tuple[str, str]) -> Split:
    inputs_path, targets_path = map(found.file, names)
    header = read_header(inputs_path)
    check_numbers(header.dtype, where=str(inputs_path))
    if header.fortran_order and len(header.shape) > 1:
        raise DataError(f"{inputs_path}: stored by columns; save numpy.ascontiguousarray of it")
    if not header.shape:
        raise DataError(f"{inputs_path}: one number, not samples")
    labels = _labels(targets_path)
    check_counts(header.shape[0], len(labels), files=(inputs_path, targets_path))
    file = RowFile(inputs_path, header.shape[0], header.start, header.row_bytes)
    rows = Rows([file], shape=header.shape[1:], dtype=header.dtype)
    return Split(rows, labels, scale_of(header.dtype))


def _labels(path: Path) -> Tensor:
    read_header(path)  # which knows what is wrong with a file better than `numpy.load`
    load_array: Callable[..., Array] = np.load
    try:
        return as_labels(load_array(path, allow_pickle=False), where=str(path))
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def _channels_first(split: Split) -> Split:
    stored = split.inputs if split.source is None else split.source
    inputs = with_channels_first(stored)
    return split if inputs is stored else split.of(inputs, split.targets)


def _check_alike(train: Split, test: Split, found: Found) -> None:
    if train.stored_shape != test.stored_shape or train.scale != test.scale:
        raise DataError(
            f"{found.path}: training samples of shape {train.stored_shape} and test samples of "
            f"shape {test.stored_shape} must be alike, and of the same type"
        )
