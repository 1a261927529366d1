"""A user's own numpy arrays: in one .npz file, or as .npy files that may be larger than memory.

Inputs are [n, *shape] of any numbers; bytes are taken to be pixels and scaled to 0..1. Images with
the channels last, or grey ones without a channel, get the channels first. Targets are [n] whole
numbers or words, or [n, classes] one-hot rows; classes are called as they are there. Other numbers
are the values of a regression, [n] or [n, k], and rows of 0 and 1 are labels. Without a test part
some samples are held out to test with.
"""

import logging
from pathlib import Path

from phalanx.data.arrays import (
    as_tensor,
    check_counts,
    check_finite,
    check_numbers,
    scale_of,
)
from phalanx.data.channels import with_channels_first
from phalanx.data.containers.npz_archive import read_array
from phalanx.data.formats.npy import read_header, read_npy
from phalanx.data.formats.npz_files import Found, find
from phalanx.data.options import TEST_SPLIT
from phalanx.data.rows import RowFile, Rows
from phalanx.data.split import Dataset, Split, part_test
from phalanx.data.targets.arrays import Targets, alike, read_targets
from phalanx.errors import DataError

_log = logging.getLogger(__name__)


def load(
    path: Path,
    *,
    test_split: float = TEST_SPLIT.default,
    seed: int = 0,
    task: str | None = None,
) -> Dataset:
    """The arrays at `path`; those of .npy files stay on disk, those of a .npz are read whole."""
    found = find(path)
    read = _from_folder if found.is_folder else _from_archive
    stored, known = read(found, found.names.train, task)
    train = _channels_first(stored)
    if train is not stored:
        _log.info(
            "npz: samples of %s are images of shape %s, taken as %s: channels first",
            *(found.path, stored.stored_shape, train.stored_shape),
        )
    if found.names.test is None:
        train, test = part_test(train, test_split, seed=seed)
        return Dataset("npz", train, test, known.classes, task=known.task)
    stored_test, of_test = read(found, found.names.test, known.task)
    test = _channels_first(stored_test)
    _check_alike(train, test, found)
    known, of_test = alike(known, of_test)
    train, test = train.with_targets(known.targets), test.with_targets(of_test.targets)
    return Dataset("npz", train, test, known.classes, task=known.task)


def _from_archive(found: Found, names: tuple[str, str], task: str | None) -> tuple[Split, Targets]:
    inputs, targets = (read_array(found.path, name) for name in names)
    where = f"{found.path}: {names[0]}"
    check_numbers(inputs.dtype, where=where)
    check_finite(inputs, where=where)
    known = read_targets(targets, where=f"{found.path}: {names[1]}", asked=task)
    check_counts(len(inputs), len(known.targets), files=(where, names[1]))
    return Split(as_tensor(inputs), known.targets, scale_of(inputs.dtype)), known


def _from_folder(found: Found, names: tuple[str, str], task: str | None) -> tuple[Split, Targets]:
    inputs_path, targets_path = map(found.file, names)
    header = read_header(inputs_path)
    check_numbers(header.dtype, where=str(inputs_path))
    if header.fortran_order and len(header.shape) > 1:
        raise DataError(f"{inputs_path}: stored by columns; save numpy.ascontiguousarray of it")
    if not header.shape:
        raise DataError(f"{inputs_path}: one number, not samples")
    known = read_targets(read_npy(targets_path), where=str(targets_path), asked=task)
    check_counts(header.shape[0], len(known.targets), files=(inputs_path, targets_path))
    file = RowFile(inputs_path, header.shape[0], header.start, header.row_bytes)
    rows = Rows([file], shape=header.shape[1:], dtype=header.dtype)
    return Split(rows, known.targets, scale_of(header.dtype)), known


def _channels_first(split: Split) -> Split:
    stored = split.inputs if split.source is None else split.source
    inputs = with_channels_first(stored)
    return split if inputs is stored else split.of(inputs, split.targets)


def _check_alike(train: Split, test: Split, found: Found) -> None:
    if train.targets.shape[1:] != test.targets.shape[1:]:
        raise DataError(
            f"{found.path}: targets of shape {tuple(train.targets.shape)} to train on and of shape "
            f"{tuple(test.targets.shape)} to test with must be alike"
        )
    if train.stored_shape != test.stored_shape or train.scale != test.scale:
        raise DataError(
            f"{found.path}: training samples of shape {train.stored_shape} and test samples of "
            f"shape {test.stored_shape} must be alike, and of the same type"
        )
