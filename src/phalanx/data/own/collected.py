"""Samples of a user's own: a map-style data set of torch's, or tensors in memory, in any nest.

Both are taken as a `Split` is: by indices, in an order that the seed and the epoch fix.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, final

import torch
from torch import Tensor
from torch.utils.data import default_collate

from phalanx.data.loading.pool import Workers
from phalanx.data.own.nest import Nest, leaves, map_leaves
from phalanx.data.own.random_numbers import kept_generators, sample_seeds, seed_sample
from phalanx.data.split import Samples
from phalanx.data.transforms import Draw
from phalanx.errors import UsageError
from phalanx.pulse import pulse
from phalanx.wording import a

Collate = Callable[[list[Any]], Any]

#: How many samples of a batch are named in a note on an error.
_NAMED = 10
#: What samples are drawn by where no training says it: every evaluation sees the same ones.
_UNTRAINED = Draw(0, 0)


class Indexed(Protocol):
    """What `torch.utils.data.Dataset` asks for, and a list has."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Any: ...


def as_samples(batch: Any, *, whole: bool) -> Samples:
    """A user's batch as strategies take it: `whole` for an objective of the user's own, else the
    inputs of the model and the targets of the loss."""
    if whole:
        nest = Nest(batch)
        return Samples(nest, nest)
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise UsageError(
            f"a loss compares the outputs of inputs with targets, and a batch here is no pair "
            f"(inputs, targets) but {_described(batch)}: give a collate function that makes it "
            "one, or objective=, a function of (model, batch)"
        )
    inputs, targets = (one if isinstance(one, Tensor) else Nest(one) for one in batch)
    return Samples(inputs, targets)


def _described(batch: Any) -> str:
    if isinstance(batch, tuple | list):
        return f"{a(batch)} of {len(batch)}"
    return f"{a(batch)}"


@final
class InMemory:
    """A nest of tensors that are there: every rank has them all."""

    has_targets = True
    #: There is nothing to read before it is needed.
    ahead = 0

    def __init__(self, nest: Any, *, whole: bool) -> None:
        self._nest, self.whole = Nest(nest), whole

    def __len__(self) -> int:
        return len(self._nest)

    def fetch(self, indices: Tensor, draw: Draw | None = None) -> Any:
        """The batch of these samples."""
        return self._nest[indices].value

    def ask(self, indices: Tensor, draw: Draw | None) -> "Future[Any] | None":
        """Nothing: it is there."""
        return None

    def take(
        self,
        indices: Tensor,
        *,
        dtype: torch.dtype = torch.float32,
        draw: Draw | None = None,
        fetched: Any = None,
    ) -> Samples:
        """The samples at `indices`, as they are."""
        pulse.beats += 1
        return as_samples(self.fetch(indices), whole=self.whole)

    def take_targets(self, indices: Tensor, *, dtype: torch.dtype = torch.float32) -> Any:
        """The targets at `indices` alone; with an objective, the whole batch."""
        return self.take(indices).targets


@final
class Collected:
    """A map-style data set, whose samples are put together by a collate function."""

    def __init__(
        self,
        dataset: Indexed,
        *,
        collate: Collate | None = None,
        whole: bool = False,
        has_targets: bool = False,
        workers: Workers | None = None,
    ) -> None:
        self.dataset, self.whole, self.has_targets = dataset, whole, has_targets
        self.collate: Collate = default_collate if collate is None else collate
        self._reader = None if workers is None else workers.reader(dataset, self.collate)

    @property
    def ahead(self) -> int:
        """How many batches workers are asked for before they are needed."""
        return 0 if self._reader is None else self._reader.ahead

    def beside(self, workers: Workers) -> "Collected":
        """The same samples, which workers read."""
        return Collected(
            self.dataset,
            collate=self.collate,
            whole=self.whole,
            has_targets=self.has_targets,
            workers=workers,
        )

    def ask(self, indices: Tensor, draw: Draw | None) -> "Future[Any] | None":
        """Have a worker read the batch of these samples, if there are any."""
        if self._reader is None or len(indices) == 0:
            return None
        return self._reader.ask(indices, draw or _UNTRAINED)

    def __len__(self) -> int:
        return len(self.dataset)

    def fetch(self, indices: Tensor, draw: Draw | None = None) -> Any:
        """The batch of these samples, random ones as the draw has them."""
        return read_batch(self.dataset, indices, draw=draw or _UNTRAINED, collate=self.collate)

    def take(
        self,
        indices: Tensor,
        *,
        dtype: torch.dtype = torch.float32,
        draw: Draw | None = None,
        fetched: Any = None,
    ) -> Samples:
        """The samples at `indices`, as the data set gives them."""
        pulse.beats += 1
        if len(indices) == 0:
            return self._nothing()
        batch = self.fetch(indices, draw) if fetched is None else fetched
        samples = as_samples(batch, whole=self.whole)
        if len(samples.targets) != len(indices):
            raise UsageError(
                f"a batch of {len(indices)} samples has {len(samples.targets)} once it is "
                "collated: the first dimension of its tensors must count the samples"
            )
        return samples

    def _nothing(self) -> Samples:
        one = as_samples(self.fetch(torch.tensor([0])), whole=self.whole)
        return Samples(one.inputs[:0], one.targets[:0])

    def take_targets(self, indices: Tensor, *, dtype: torch.dtype = torch.float32) -> Any:
        """The targets at `indices` alone; with an objective, the whole batch."""
        return self.take(indices).targets


def read_batch(dataset: Indexed, indices: Tensor, *, draw: Draw, collate: Collate) -> Any:
    """Read samples and put them together, leaving the process its random numbers."""
    with kept_generators():
        samples = []
        for index, seed in zip(indices.tolist(), sample_seeds(draw, indices), strict=True):
            seed_sample(seed)
            try:
                samples.append(dataset[index])
            except Exception as error:
                error.add_note(f"This was when sample {index} of the data set was read.")
                raise
            pulse.beats += 1
        try:
            return collate(samples)
        except Exception as error:
            some = ", ".join(map(str, indices[:_NAMED].tolist()))
            more = " …" if len(indices) > _NAMED else ""
            error.add_note(f"This was when samples {some}{more} of the data set were collated.")
            raise


Taken = InMemory | Collected


def tensors_of(samples: Taken, indices: Sequence[int]) -> list[Tensor]:
    """All that some samples are made of, to tell them from others."""
    batch = samples.fetch(torch.tensor(indices))
    return [one for one in leaves(map_leaves(_as_tensor, batch)) if isinstance(one, Tensor)]


def _as_tensor(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return leaf.detach().cpu()
    text = "\0".join(one if isinstance(one, str) else one.hex() for one in leaf)
    return torch.frombuffer(bytearray(text.encode() or b"\0"), dtype=torch.uint8)
