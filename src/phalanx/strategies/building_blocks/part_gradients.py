"""Forward and backward over this rank's parts of a global batch, as every strategy does them."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from phalanx.clock import phase
from phalanx.data.batches import cut
from phalanx.data.split import Samples
from phalanx.exchange.flat import FlatParameters
from phalanx.strategies.base import Outcome, Task
from phalanx.strategies.building_blocks.passes import Pass, make_pass
from phalanx.strategies.building_blocks.randomness import seed_part
from phalanx.strategies.building_blocks.sharded_buffers import ShardedBuffers


class Parts(Protocol):
    """A global batch, as far as this rank's parts of it are concerned."""

    @property
    def size(self) -> int:
        """The number of samples over all parts, on all ranks."""

    @property
    def step(self) -> int:
        """Its number in the training."""

    def part(self, index: int, of: int) -> Samples:
        """The samples of one part when the batch is cut in `of` parts; there may be none."""


def _nothing() -> None:
    pass


def accumulate_gradients(
    task: Task,
    samples: Samples,
    *,
    batch_size: int,
    run: Pass,
    before_last_pass: Callable[[], None] = _nothing,
) -> Outcome:
    """Add to every `.grad` what these samples contribute to the loss of the global batch.

    No sample, no contribution: the model is then not called at all.
    """
    count = len(samples.targets)
    outcomes = []
    for piece in cut(count, task.accumulate):
        targets = samples.targets[piece]
        if len(targets) == 0:
            continue
        if piece.stop == count:
            before_last_pass()
        share = task.loss.share(len(targets), batch_size)
        loss, outputs = run(samples.inputs[piece], targets, share)
        total = task.loss.total(loss.item(), len(targets))
        outcomes.append(Outcome(loss=total, targets=targets, outputs=outputs))
    return joined(outcomes)


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Several outcomes of one rank as one."""
    if len(outcomes) == 1:
        return outcomes[0]
    kept = [(one.targets, one.outputs) for one in outcomes if one.outputs is not None]
    if not kept:
        return Outcome(loss=0.0, targets=None, outputs=None)
    return Outcome(
        loss=sum(one.loss for one in outcomes),
        targets=torch.cat([targets for targets, _ in kept if targets is not None]),
        outputs=torch.cat([outputs for _, outputs in kept]),
    )


class PartGradients:
    """The parts of every global batch that this rank computes, and the rows they add up in."""

    def __init__(
        self,
        task: Task,
        flat: FlatParameters,
        *,
        parts: range,
        of: int,
        rows: Sequence[int],
        statistics: ShardedBuffers | None = None,
        before_last_pass: Callable[[], None] = _nothing,
        folds: bool = False,
    ) -> None:
        """With `folds`, every part is added to the first row as soon as it is there: each is
        computed apart, and yet two rows are enough for them all."""
        self._task = task
        self._flat = flat
        self._folds = folds
        self._parts = list(zip(parts, rows, strict=True))
        self._of = of
        self._sharded_buffers = statistics
        self._before_last_pass = before_last_pass
        self._pass = make_pass(task)

    def compute(self, batch: Parts) -> Outcome:
        """This rank's parts of a batch: their gradients into the rows, their outcome."""
        current = -1
        outcomes = []
        if self._sharded_buffers is not None:
            self._sharded_buffers.begin()
        for part, row in self._parts:
            if row != current or self._folds:
                self._finish_row(current)
                self._flat.attach(row)
                current = row
            outcomes.append(self._compute_part(batch, part))
        self._finish_row(current)
        return joined(outcomes)

    def _finish_row(self, row: int) -> None:
        if row >= 0:
            self._flat.collect(row)
        if row > 0 and self._folds:
            self._flat.add_to_first(row)

    def _compute_part(self, batch: Parts, part: int) -> Outcome:
        seed_part(self._task.seed, batch.step, part)
        with phase("load"):
            samples = batch.part(part, of=self._of)
        outcome = accumulate_gradients(
            self._task,
            samples,
            batch_size=batch.size,
            run=self._pass,
            before_last_pass=self._before_last_pass,
        )
        if self._sharded_buffers is not None:
            self._sharded_buffers.record(part)
        return outcome
