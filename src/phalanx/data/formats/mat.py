"""A MATLAB file with X, a sample a row, and y, which counts classes from 1.

Label y is class y − 1, so that label 10 is the last of ten classes. With labels 1 to 10 classes are
taken to be digits, of which label 10 is the 0, as MATLAB has no index 0.

Values stay in the order of the file: for rows of 400, which are digits of 20×20 pixels, that is
column by column, the order that published weights for 400 inputs are in. Bytes are taken to be
pixels and scaled to 0..1.
"""

from pathlib import Path
from typing import Any

import numpy as np

from phalanx.data.arrays import (
    Array,
    as_labels,
    as_tensor,
    check_counts,
    check_finite,
    check_numbers,
    scale_of,
)
from phalanx.data.formats.mat_file import find
from phalanx.data.options import TEST_SPLIT
from phalanx.data.packages import need
from phalanx.data.split import Dataset, Split, part_test
from phalanx.errors import DataError


def load(path: Path, *, test_split: float = TEST_SPLIT.default, seed: int = 0) -> Dataset:
    """The samples of a file, a share of them held out to test with.

    A share of 0 tests on the training samples.
    """
    file = find(path)
    inputs, targets = _read(file)
    check_numbers(inputs.dtype, where=f"{file}: X")
    if inputs.ndim != 2:
        raise DataError(f"{file}: X has shape {inputs.shape}; a sample a row is needed")
    check_finite(inputs, where=f"{file}: X")
    labels = as_labels(targets, where=f"{file}: y", first=1)
    check_counts(len(inputs), len(labels), files=(f"{file}: X", "y"))
    samples = Split(as_tensor(inputs), labels, scale_of(inputs.dtype))
    train, test = part_test(samples, test_split, seed=seed)
    return Dataset("mat", train, test, _class_names(int(labels.max()) + 1))


def _read(file: Path) -> tuple[Array, Array]:
    need("scipy", for_what="MATLAB files", called="scipy")
    import scipy.io

    try:
        content: dict[str, Any] = scipy.io.loadmat(file, variable_names=("X", "y"))
    except Exception as error:  # a damaged file can fail in any way
        raise DataError(f"{file}: not a readable MATLAB file: {error}") from error
    missing = [name for name in ("X", "y") if name not in content]
    if missing:
        raise DataError(f"{file}: holds no {' and no '.join(missing)}")
    inputs, targets = content["X"], content["y"]
    if not (isinstance(inputs, np.ndarray) and isinstance(targets, np.ndarray)):
        raise DataError(f"{file}: X and y must be full matrices")
    return inputs, targets


def _class_names(count: int) -> tuple[str, ...]:
    if count == 10:
        return (*map(str, range(1, 10)), "0")
    return tuple(str(label) for label in range(1, count + 1))
