"""Samples that come one after the other (`IterableDataset`): nobody can pick, and none knows how
many there are.

Every rank goes through all of them and puts together those of its own parts alone: batches, and so
weights, are those of one rank. The order is the data set's own. A training that is gone on with
passes over what it has seen.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, final

import torch
from torch.utils.data import IterableDataset

from phalanx.data.batches import Batch
from phalanx.data.own.collected import Collate, Collected
from phalanx.data.own.random_numbers import kept_generators, sample_seeds, seed_sample
from phalanx.data.transforms import Draw
from phalanx.errors import UsageError
from phalanx.pulse import pulse


@final
class Stream:
    """What `Trainer.fit` makes of an `IterableDataset`."""

    def __init__(
        self,
        dataset: "IterableDataset[Any]",
        *,
        collate: Collate | None = None,
        whole: bool = False,
    ) -> None:
        self.dataset, self._collate, self._whole = dataset, collate, whole

    def batches(
        self,
        *,
        batch_size: int,
        seed: int,
        epoch: int,
        device: torch.device | None = None,
        seen: int = 0,
        step: int = 0,
    ) -> Iterator[Batch]:
        """One epoch's global batches from here to wherever the data set ends."""
        samples = self._samples(Draw(seed, epoch))
        if sum(1 for _ in islice(samples, seen)) < seen:
            raise UsageError(
                f"the data set ends before the {seen:,} samples that this epoch has seen already: "
                "it is not the one that the training began with"
            )
        while some := list(islice(samples, batch_size)):
            known = Collected(some, collate=self._collate, whole=self._whole, has_targets=True)
            yield Batch(known, torch.arange(len(some)), device=device, step=step)
            step += 1

    def _samples(self, draw: Draw) -> Iterator[Any]:
        set_epoch = getattr(self.dataset, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(draw.epoch)
        with kept_generators():
            seed_sample(sample_seeds(draw, torch.tensor([0]))[0])
            iterator = iter(self.dataset)
        number = 0
        while True:
            number += 1
            with kept_generators():
                seed_sample(sample_seeds(draw, torch.tensor([number]))[0])
                try:
                    sample = next(iterator)
                except StopIteration:
                    return
            pulse.beats += 1
            yield sample
