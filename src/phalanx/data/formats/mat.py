"""A MATLAB file with X, a sample a row, and y, which counts classes from 1.

Label y is class y − 1, so that label 10 is the last of ten classes. With labels 1 to 10 classes are
taken to be digits, of which label 10 is the 0, as MATLAB has no index 0.

Values stay in the order of the file: for rows of 400, which are digits of 20×20 pixels, that is
column by column, the order that published weights for 400 inputs are in. Bytes are taken to be
pixels and scaled to 0..1.

Other numbers in y are the values of a regression, one a sample or a row of them, and rows of 0 and
1 are labels.
"""

from pathlib import Path

from phalanx.data.arrays import (
    Array,
    as_labels,
    as_tensor,
    check_counts,
    check_finite,
    check_numbers,
    scale_of,
)
from phalanx.data.containers.mat_matrices import read_matrices
from phalanx.data.formats.mat_file import find
from phalanx.data.options import TEST_SPLIT
from phalanx.data.split import Dataset, Split, part_test
from phalanx.data.targets.arrays import Targets, read_numbers, task_of
from phalanx.data.targets.tasks import CLASSIFICATION, MULTI_LABEL, unsure
from phalanx.errors import DataError


def load(
    path: Path,
    *,
    test_split: float = TEST_SPLIT.default,
    seed: int = 0,
    task: str | None = None,
) -> Dataset:
    """The samples of a file, a share of them held out to test with.

    A share of 0 tests on the training samples.
    """
    file = find(path)
    inputs, targets = _read(file)
    check_numbers(inputs.dtype, where=f"{file}: X")
    if inputs.ndim != 2:
        raise DataError(f"{file}: X has shape {inputs.shape}; a sample a row is needed")
    check_finite(inputs, where=f"{file}: X")
    known = _targets(targets, where=f"{file}: y", asked=task)
    check_counts(len(inputs), len(known.targets), files=(f"{file}: X", "y"))
    samples = Split(as_tensor(inputs), known.targets, scale_of(inputs.dtype))
    train, test = part_test(samples, test_split, seed=seed)
    return Dataset("mat", train, test, known.classes, task=known.task)


def _targets(array: Array, *, where: str, asked: str | None) -> Targets:
    flat = array.size == max(array.shape, default=0)
    task = asked or (task_of(array, where=where) if array.ndim == 2 else CLASSIFICATION)
    if task != CLASSIFICATION:
        return Targets(task, (), read_numbers(array, where=where, task=task))
    if asked is None and not flat and array.ndim == 2:
        raise DataError(
            unsure(where, "has a 1 in every row, where a class is one number", tasks=(MULTI_LABEL,))
        )
    labels = as_labels(array, where=where, first=1)
    return Targets(task, _class_names(int(labels.max()) + 1), labels)


def _read(file: Path) -> tuple[Array, Array]:
    content = read_matrices(file, lambda name: name in ("X", "y"))
    missing = [name for name in ("X", "y") if name not in content]
    if missing:
        raise DataError(f"{file}: holds no {' and no '.join(missing)}")
    return content["X"], content["y"]


def _class_names(count: int) -> tuple[str, ...]:
    if count == 10:
        return (*map(str, range(1, 10)), "0")
    return tuple(str(label) for label in range(1, count + 1))
