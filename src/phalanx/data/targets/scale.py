"""The scale of a regression's targets: models learn numbers of mean 0 and deviation 1.

Losses and weights then do not depend on the unit of what is measured; answers and errors are given
in that unit again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from phalanx.data.split import Dataset, Split
from phalanx.data.targets.tasks import REGRESSION
from phalanx.errors import DataError


@dataclass(frozen=True, eq=False)
class TargetScale:
    """What is taken from targets, and what they are divided by: a number each for every target."""

    mean: Tensor
    deviation: Tensor

    def standardised(self, values: Tensor) -> Tensor:
        """Targets as a model learns them."""
        return (values.to(torch.float64) - self.mean) / self.deviation

    def restored(self, values: Tensor) -> Tensor:
        """A model's answers in the unit of the targets."""
        return values.to(torch.float64) * self.deviation + self.mean

    def for_json(self) -> dict[str, Any]:
        """The scale for a file, with which `scale_from` makes it again."""
        return {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()}


def scale_from(values: Mapping[str, Any]) -> TargetScale:
    """The scale that `for_json` gave."""
    return TargetScale(
        *(torch.tensor(values[name], dtype=torch.float64) for name in ("mean", "deviation"))
    )


def scale_of(name: str, targets: Tensor) -> TargetScale:
    """The scale of the targets [n, k] to train on; a DataError where there is nothing to learn."""
    values = targets.to(torch.float64)
    deviation = values.std(0, correction=0)
    constant = (values == values[:1]).all(0)
    if constant.all():
        raise DataError(
            f"{name}: all {len(values):,} training samples have the same target, "
            f"{', '.join(f'{one:g}' for one in values[0].tolist())}: there is nothing to learn"
        )
    return TargetScale(values.mean(0), torch.where(constant, 1.0, deviation))


def standardised(dataset: Dataset, scale: TargetScale | None = None) -> Dataset:
    """A regression with its targets brought to a scale: a given one, or that of its training
    samples. Others stay as they are."""
    if dataset.task != REGRESSION:
        return dataset
    scale = scale_of(dataset.name, dataset.train.targets) if scale is None else scale
    train = _brought(dataset.train, scale)
    same = dataset.test is dataset.train
    test = train if same else _brought(dataset.test, scale)
    return replace(dataset, train=train, test=test, scale=scale)


def _brought(split: Split, scale: TargetScale) -> Split:
    return split.with_targets(scale.standardised(split.targets))
