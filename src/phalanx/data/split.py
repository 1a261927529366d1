"""A data set in memory: its training and test parts, and the batches taken from them."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from phalanx.data.seeding import generator
from phalanx.errors import UsageError

# Keeps the choice of validation samples apart from the order of any epoch.
_HOLD_OUT = (1,)


class Samples(NamedTuple):
    """Inputs and targets, ready for a model and its loss."""

    inputs: Tensor
    targets: Tensor


@dataclass(frozen=True, eq=False)
class Split:
    """Samples as they are on disk: `inputs` [n, *shape] and `targets` [n].

    `take` multiplies inputs by `scale`, so that images can stay bytes in memory.
    """

    inputs: Tensor
    targets: Tensor
    scale: float = 1.0

    def __post_init__(self) -> None:
        counts = [list(tensor.shape[:1]) for tensor in (self.inputs, self.targets)]
        if not counts[0] or counts[0] != counts[1]:
            raise UsageError(
                f"a split needs one target an input, got inputs of shape "
                f"{tuple(self.inputs.shape)} and targets of shape {tuple(self.targets.shape)}"
            )

    def __len__(self) -> int:
        return self.inputs.shape[0]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.inputs.shape[1:])

    def take(self, indices: Tensor, *, dtype: torch.dtype = torch.float32) -> Samples:
        """The samples at `indices`: scaled inputs of `dtype`; integer targets stay as they are."""
        inputs = self.inputs.index_select(0, indices).to(dtype)
        if self.scale != 1.0:
            inputs.mul_(self.scale)
        targets = self.targets.index_select(0, indices)
        return Samples(inputs, targets.to(dtype) if targets.is_floating_point() else targets)

    def subset(self, indices: Tensor) -> "Split":
        """A split of the samples at `indices` alone, copied."""
        return replace(
            self,
            inputs=self.inputs.index_select(0, indices),
            targets=self.targets.index_select(0, indices),
        )


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set: `classes` names what the targets count, from 0."""

    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return self.train.input_shape


def hold_out(split: Split, fraction: float, *, seed: int) -> tuple[Split, Split | None]:
    """Part a split in training and validation samples, by the seed alone.

    A fraction of 0 holds nothing out and gives None for the validation part.
    """
    if not 0 <= fraction < 1:
        raise UsageError(f"the fraction to hold out must be from 0 to below 1, got {fraction}")
    if fraction == 0:
        return split, None
    count = round(len(split) * fraction)
    if not 0 < count < len(split):
        part = "no sample to validate with" if count == 0 else "no sample to train on"
        raise UsageError(f"holding out {fraction} of {len(split)} samples leaves {part}")
    order = torch.from_numpy(generator(seed, purpose=_HOLD_OUT).permutation(len(split)))
    # Sorted, both parts keep the order on disk: a run without shuffling still reads in that order.
    held, kept = order[:count].sort().values, order[count:].sort().values
    return split.subset(kept), split.subset(held)
