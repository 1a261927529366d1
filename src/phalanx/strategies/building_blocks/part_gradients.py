"""Forward and backward over this rank's parts of a global batch, as every strategy does them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Protocol

import torch
from torch import Tensor, nn

from phalanx.clock import phase
from phalanx.data.batches import cut, plain
from phalanx.data.split import Samples
from phalanx.errors import UsageError
from phalanx.exchange.flat import FlatParameters
from phalanx.strategies.base import Outcome, Piece, Task, Weighed, number
from phalanx.strategies.building_blocks.passes import Pass, make_pass
from phalanx.strategies.building_blocks.randomness import seed_part
from phalanx.strategies.building_blocks.rank_buffers import Buffers


class Parts(Weighed, Protocol):
    """A global batch, as far as this rank's parts of it are concerned."""

    @property
    def step(self) -> int:
        """Its number in the training."""

    def part(self, index: int, of: int) -> Samples:
        """The samples of one part when the batch is cut in `of` parts; there may be none."""


def nothing() -> None:
    """For who has nothing to do before the last pass."""


_NO_CHECK = nullcontext()


def accumulate_gradients(
    task: Task,
    samples: Samples,
    *,
    whole: float,
    run: Pass,
    before_last_pass: Callable[[], None] = nothing,
) -> Outcome:
    """Add to every `.grad` what these samples contribute to the loss of the global batch, whose
    weight is `whole`.

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
        weight = task.loss.weight(targets)
        if task.loss.averaged and weight == 0 and whole > 0:  # a mean of nothing
            passed = Piece(plain(targets), None, samples=len(targets))
            outcomes.append(Outcome(0.0, None, None, weight, (passed,)))
            continue
        loss, outputs = run(samples.inputs[piece], targets, task.loss.share(weight, whole))
        total = task.loss.total(number(loss), weight)
        if task.objective is None and isinstance(targets, Tensor):
            outcomes.append(Outcome(total, targets, outputs, weight))
            continue
        passed = Piece(plain(targets), outputs, samples=len(targets))
        if task.objective is None:
            outcomes.append(Outcome(total, None, None, weight, (passed,)))
        else:
            outcomes.append(task.objective.outcome(total, passed, weight))
    return joined(outcomes)


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Several outcomes of one rank as one."""
    if len(outcomes) == 1:
        return outcomes[0]
    kept = [(one.targets, one.outputs) for one in outcomes if one.outputs is not None]
    if not kept and not any(one.pieces for one in outcomes):
        return Outcome(loss=0.0, targets=None, outputs=None)
    return Outcome(
        loss=sum(one.loss for one in outcomes),
        targets=_cat(targets for targets, _ in kept),
        outputs=_cat(outputs for _, outputs in kept),
        weight=sum(0.0 if one.weight is None else one.weight for one in outcomes),
        pieces=tuple(piece for one in outcomes for piece in one.pieces),
    )


def _cat(tensors: Iterable[Tensor | None]) -> Tensor | None:
    there = [one for one in tensors if one is not None]
    return torch.cat(there) if there else None


@contextmanager
def unchanged_weights(model: nn.Module, who: str = "a pass") -> Iterator[None]:
    """Refuse who changes weights in place: other ranks, and parts, would not know."""
    before = {name: one._version for name, one in model.named_parameters()}
    yield
    for name, parameter in model.named_parameters():
        if parameter._version != before.get(name):
            raise UsageError(
                f"{who} changes the weights of '{name}' in place, which is another change in "
                "each part of a batch: train on one rank without shards (strategy 'single')"
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
        statistics: Buffers | None = None,
        before_last_pass: Callable[[], None] = nothing,
        folds: bool = False,
    ) -> None:
        """With `folds`, every part is added to the first row as soon as it is there: each is
        computed apart, and yet two rows are enough for them all."""
        self._task = task
        self._flat = flat
        self._folds = folds
        self._parts = list(zip(parts, rows, strict=True))
        self._of = of
        self._buffers = statistics
        self._before_last_pass = before_last_pass
        self._pass = make_pass(task)
        self._first = True

    def compute(self, batch: Parts) -> Outcome:
        """This rank's parts of a batch: their gradients into the rows, their outcome."""
        current = -1
        outcomes = []
        whole = self._task.loss.whole(batch)
        if self._buffers is not None:
            self._buffers.begin()
        for part, row in self._parts:
            if row != current or self._folds:
                self._finish_row(current)
                self._flat.attach(row)
                current = row
            with unchanged_weights(self._task.model) if self._first else _NO_CHECK:
                outcomes.append(self._compute_part(batch, part, whole))
            self._first = False
        self._finish_row(current)
        return joined(outcomes)

    def _finish_row(self, row: int) -> None:
        if row >= 0:
            self._flat.collect(row)
        if row > 0 and self._folds:
            self._flat.add_to_first(row)

    def _compute_part(self, batch: Parts, part: int, whole: float) -> Outcome:
        seed_part(self._task.seed, batch.step, part)
        with phase("load"):
            samples = batch.part(part, of=self._of)
        outcome = accumulate_gradients(
            self._task,
            samples,
            whole=whole,
            run=self._pass,
            before_last_pass=self._before_last_pass,
        )
        if self._buffers is not None:
            self._buffers.record(part)
        return outcome
