"""A data set's training and test samples, and how some of them are taken."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

import torch
from torch import Tensor

from phalanx.data.loading.thread import Fetching
from phalanx.data.own.nest import to_device
from phalanx.data.seeding import generator
from phalanx.data.source import Picked, Source
from phalanx.data.tables.form import TableForm
from phalanx.data.transforms import Draw, Transform
from phalanx.errors import UsageError
from phalanx.pulse import pulse

if TYPE_CHECKING:
    from phalanx.data.targets.scale import TargetScale

# Keep the choices of validation and of test samples apart from each other and from any epoch.
_HOLD_OUT = (1,)
_TEST = (2,)


class Samples(NamedTuple):
    """Inputs and targets, ready for a model and its loss: tensors, or a `Nest` of them."""

    inputs: Any
    targets: Any

    def to(self, device: torch.device) -> "Samples":
        """The same samples on a device."""
        return Samples(*(_moved(one, device) for one in self))


def _moved(one: Any, device: torch.device) -> Any:
    return to_device(one, device) if isinstance(one, Tensor) else one.to(device, non_blocking=True)


@final
class Split:
    """Samples as they are stored: inputs [n, *shape], in memory or in a `Source`, and targets [n].

    `take` multiplies inputs by `scale`, so that images can stay bytes, and then applies the
    transforms in their order, those that need it in more precision than was asked for. Whole
    numbers without either are taken as they are: the words of a text, say, for `nn.Embedding`.
    """

    #: Whether every rank has all targets, and so knows what those of a batch weigh.
    has_targets = True

    __slots__ = (
        *("_casts_targets", "_inputs", "_precise", "_precision", "_rows"),
        *("scale", "targets", "transforms"),
    )

    def __init__(
        self,
        inputs: Tensor | Source,
        targets: Tensor,
        scale: float | None = None,
        *,
        transforms: Sequence[Transform] = (),
    ) -> None:
        if not isinstance(inputs, Source):
            inputs = torch.as_tensor(inputs)  # of NumPy, too
        targets = torch.as_tensor(targets)
        if not (targets.is_floating_point() or targets.is_complex()):
            targets = targets.to(torch.int64)  # as losses want the numbers of classes
        _check_lengths(inputs, targets)
        self.targets = targets
        self.scale = scale
        self.transforms = tuple(transforms)
        self._precise, self._precision = _precise_steps(self.transforms)
        self._inputs = inputs
        self._casts_targets = targets.is_floating_point()
        self._rows: Callable[[Tensor], Tensor] = (
            partial(inputs.index_select, 0) if isinstance(inputs, Tensor) else Fetching(inputs.take)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Split._again, (self._inputs, self.targets, self.scale, self.transforms)

    @staticmethod
    def _again(inputs: Any, targets: Any, scale: Any, transforms: Any) -> "Split":
        return Split(inputs, targets, scale, transforms=transforms)

    def __len__(self) -> int:
        return self.targets.shape[0]

    @property
    def inputs(self) -> Tensor:
        """The inputs as they are stored, if they are in memory."""
        if isinstance(self._inputs, Tensor):
            return self._inputs
        raise UsageError("these samples are not in memory: take those that are needed")

    @property
    def source(self) -> Source | None:
        """Where the inputs are fetched from, if they are not in memory."""
        return None if isinstance(self._inputs, Tensor) else self._inputs

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape of one sample as it is stored, before the transforms."""
        if isinstance(self._inputs, Tensor):
            return tuple(self._inputs.shape[1:])
        return self._inputs.shape

    @property
    def stored_dtype(self) -> torch.dtype:
        """The type of the numbers that inputs are stored in."""
        return self._rows(torch.empty(0, dtype=torch.int64)).dtype

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample as it is taken."""
        shape = self.stored_shape
        for transform in self.transforms:
            shape = transform.shape(shape)
        return shape

    def fetch(self, indices: Tensor) -> Tensor:
        """The inputs at `indices` as they are stored, for `take` to go on with."""
        return self._rows(indices)

    @property
    def ahead(self) -> int:
        """How many batches are fetched before they are needed."""
        return 0 if isinstance(self._inputs, Tensor) else 1

    def ask(self, indices: Tensor, draw: Draw | None) -> "Future[Tensor] | None":
        """Have the inputs at `indices` fetched beside the training, if that takes a while."""
        return self._rows.ahead(indices) if isinstance(self._rows, Fetching) else None

    def take(
        self,
        indices: Tensor,
        *,
        dtype: torch.dtype = torch.float32,
        draw: Draw | None = None,
        fetched: Tensor | None = None,
    ) -> Samples:
        """The samples at `indices`: inputs of `dtype`, unless they are to stay whole numbers;
        integer targets stay as they are.

        Random transforms are left out without a `draw`. What was `fetched` is used up.
        """
        pulse.beats += 1
        stored = self._rows(indices) if fetched is None else fetched
        if self._stays(stored.dtype):
            return Samples(stored, self.take_targets(indices, dtype=dtype))
        precision = self._precision
        inputs = stored.to(dtype if precision is None else torch.promote_types(dtype, precision))
        if self.scale is not None and self.scale != 1.0:
            inputs.mul_(self.scale)
        for number, transform in enumerate(self.transforms, start=1):
            inputs = transform.apply(inputs, indices, draw)
            if number == self._precise:
                inputs = inputs.to(dtype)
        return Samples(inputs, self.take_targets(indices, dtype=dtype))

    def _stays(self, stored: torch.dtype) -> bool:
        """Whether inputs are no quantities, which would be numbers of the model's type."""
        return not stored.is_floating_point and self.scale is None and not self.transforms

    def taken_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """The type of the inputs that `take` gives when it is asked for one."""
        return stored if self._stays(stored := self.stored_dtype) else dtype

    def take_targets(self, indices: Tensor, *, dtype: torch.dtype = torch.float32) -> Tensor:
        """The targets at `indices` alone."""
        targets = self.targets.index_select(0, indices)
        return targets.to(dtype) if self._casts_targets else targets

    def subset(self, indices: Tensor) -> "Split":
        """A split of the samples at `indices` alone; what is in memory is copied."""
        if isinstance(self._inputs, Tensor):
            inputs: Tensor | Source = self._inputs.index_select(0, indices)
        else:
            inputs = Picked(self._inputs, indices)
        return self.of(inputs, self.targets.index_select(0, indices))

    def of(self, inputs: Tensor | Source, targets: Tensor) -> "Split":
        """A split of other samples, stored, scaled and transformed as these are."""
        return Split(inputs, targets, self.scale, transforms=self.transforms)

    def with_targets(self, targets: Tensor) -> "Split":
        """The same samples with other targets."""
        return self.of(self._inputs, targets)

    def transformed(self, transforms: Sequence[Transform]) -> "Split":
        """The same samples, with these transforms after those they have."""
        return Split(
            self._inputs, self.targets, self.scale, transforms=(*self.transforms, *transforms)
        )


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set: `classes` names what the targets count, from 0.

    Targets may also be floating-point numbers: those of a regression, [n] or [n, k], or 0 and 1 for
    each label, [n, k]. `classes` then names the columns, or none, and `task` says which it is, if
    that does not show.

    One that was read from a table knows what its columns are. `notes` are what a user should know
    about how it was read. Targets that were standardised have a `scale`.
    """

    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]
    table: TableForm | None = None
    notes: tuple[str, ...] = ()
    task: str | None = None
    scale: "TargetScale | None" = None

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
    return _part(split, fraction, seed=seed, purpose=_HOLD_OUT, use="validate with")


def held_out_count(split: Split, fraction: float) -> int:
    """How many samples of a split this fraction of it is."""
    return round(len(split) * fraction)


def part_test(split: Split, fraction: float, *, seed: int) -> tuple[Split, Split]:
    """Part samples that have no test part in training and test samples, by the seed alone.

    A fraction of 0 trains and tests on all of them: test metrics are then those of training.
    """
    if fraction == 0:
        return split, split
    return _part(split, fraction, seed=seed, purpose=_TEST, use="test with")


def training_rows(samples: int, fraction: float, *, seed: int) -> Tensor:
    """Which of so many samples `part_test` leaves to train on."""
    if fraction == 0:
        return torch.arange(samples)
    return _parted(samples, fraction, seed=seed, purpose=_TEST, use="test with")[0]


def _part(
    split: Split, fraction: float, *, seed: int, purpose: tuple[int, ...], use: str
) -> tuple[Split, Split]:
    kept, held = _parted(len(split), fraction, seed=seed, purpose=purpose, use=use)
    return split.subset(kept), split.subset(held)


def _parted(
    samples: int, fraction: float, *, seed: int, purpose: tuple[int, ...], use: str
) -> tuple[Tensor, Tensor]:
    """Those of so many samples that are kept, and those that are held out."""
    count = round(samples * fraction)
    if not 0 < count < samples:
        part = f"no sample to {use}" if count == 0 else "no sample to train on"
        raise UsageError(f"holding out {fraction} of {samples} samples leaves {part}")
    order = torch.from_numpy(generator(seed, purpose=purpose).permutation(samples))
    # Sorted, both parts keep the order on disk: a run without shuffling still reads in that order.
    return order[count:].sort().values, order[:count].sort().values


def _precise_steps(transforms: Sequence[Transform]) -> tuple[int, torch.dtype | None]:
    """How many steps there are to the last that needs precision, and the type that it needs."""
    count, precision = 0, None
    for number, transform in enumerate(transforms, start=1):
        if transform.precision is not None:
            count = number
            precision = torch.promote_types(transform.precision, precision or transform.precision)
    return count, precision


def _check_lengths(inputs: Tensor | Source, targets: Tensor) -> None:
    shape = tuple(inputs.shape) if isinstance(inputs, Tensor) else (len(inputs), *inputs.shape)
    if not shape or targets.dim() == 0 or shape[0] != targets.shape[0]:
        raise UsageError(
            f"a split needs one target an input, got inputs of shape "
            f"{shape} and targets of shape {tuple(targets.shape)}"
        )
