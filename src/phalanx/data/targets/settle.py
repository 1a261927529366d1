"""A data set whose task is known: asked for, said by whoever made it, or seen from its targets."""

from dataclasses import replace

import torch
from torch import Tensor

from phalanx.data.split import Dataset, Split
from phalanx.data.targets.tasks import (
    CLASSIFICATION,
    MULTI_LABEL,
    REGRESSION,
    TASKS,
    unsure,
)
from phalanx.errors import DataError
from phalanx.wording import unknown

#: How far from 1 the shares of classes may add up to.
_ROUNDING = 1e-3


def settled(dataset: Dataset, asked: str | None = None) -> Dataset:
    """The data set with its task, the one `asked` for if it can be; a DataError if it cannot, or if
    nobody can tell.

    Targets of a regression are floating-point numbers [n, k] from then on, and those of labels 0
    and 1 in as many columns; `classes` names the columns.
    """
    if dataset.task is not None and dataset.task not in TASKS:
        raise unknown("task", dataset.task, known=TASKS)
    if None not in (asked, dataset.task) and asked != dataset.task:
        raise DataError(f"--task {asked}: data set {dataset.name} is for {dataset.task}")
    task = dataset.task or asked or _seen(dataset)
    if task == CLASSIFICATION:
        return replace(dataset, task=task)
    train = _in_columns(dataset, dataset.train, task)
    same = dataset.test is dataset.train
    test = train if same else _in_columns(dataset, dataset.test, task)
    names = _names(dataset, train.targets.shape[1])
    return replace(dataset, train=train, test=test, classes=names, task=task)


def _seen(dataset: Dataset) -> str:
    targets = dataset.train.targets
    if not targets.is_floating_point():
        return CLASSIFICATION
    if targets.dim() < 2 or targets.shape[1] == 1:
        return REGRESSION
    if _are_shares(targets):
        seen = "has targets that add up to 1, which may be shares of classes"
        raise DataError(unsure(f"data set {dataset.name}", seen, tasks=TASKS))
    return MULTI_LABEL if are_labels(targets) else REGRESSION


def are_labels(targets: Tensor) -> bool:
    """Whether every target is 0 or 1."""
    return bool(((targets == 0) | (targets == 1)).all())


def _are_shares(targets: Tensor) -> bool:
    rows = targets.to(torch.float64)
    return bool((rows >= 0).all()) and bool(((rows.sum(1) - 1).abs() < _ROUNDING).all())


def _in_columns(dataset: Dataset, split: Split, task: str) -> Split:
    """The split with targets [n, k] of floating-point numbers."""
    targets = split.targets if split.targets.dim() > 1 else split.targets[:, None]
    where = f"data set {dataset.name}"
    if targets.dim() != 2:
        raise DataError(
            f"{where}: targets of shape {tuple(targets.shape)}, and --task {task} needs a number, "
            "or a row of numbers, a sample"
        )
    if not targets.isfinite().all():
        row = int((~targets.isfinite()).any(1).nonzero()[0])
        raise DataError(f"{where}: the target of sample {row} is no finite number")
    if task == MULTI_LABEL and not are_labels(targets):
        raise DataError(f"{where}: targets other than 0 and 1, and --task multi-label needs these")
    if targets is split.targets and targets.is_floating_point():
        return split
    return split.with_targets(targets.to(torch.float64 if task == REGRESSION else torch.float32))


def _names(dataset: Dataset, columns: int) -> tuple[str, ...]:
    """What the columns of targets are called: as the data set says, or by their number."""
    if len(dataset.classes) == columns:
        return tuple(dataset.classes)
    if dataset.classes:
        raise DataError(
            f"data set {dataset.name}: {columns} targets a sample, and {len(dataset.classes)} "
            "names for them (classes): give one each, or none"
        )
    return ("value",) if columns == 1 else tuple(f"value {number}" for number in range(columns))
