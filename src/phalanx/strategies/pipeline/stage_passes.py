"""The passes of a global batch's micro-batches through one stage of a pipeline."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.comm.hosts import on_one_host
from phalanx.comm.progress import INTERVAL, SELDOM, progress
from phalanx.data.batches import Batch
from phalanx.models.in_parts import device_of
from phalanx.strategies.base import Outcome, Task, number
from phalanx.strategies.building_blocks.part_gradients import joined
from phalanx.strategies.building_blocks.randomness import mix, seed_all, seed_part
from phalanx.strategies.building_blocks.rank_buffers import Buffers
from phalanx.strategies.pipeline.micro_batches import Part
from phalanx.strategies.pipeline.neighbours import Border, Next, Previous
from phalanx.strategies.pipeline.schedule import one_forward_one_backward
from phalanx.strategies.pipeline.transfer import Arrival

#: MPI sends smaller messages at once, whatever the receiver does; larger ones need its attention.
_LARGE_MESSAGE = 1 << 16


@dataclass
class Times:
    """Where a stage's time went, in seconds, over so many micro-batches."""

    forward: float = 0.0
    backward: float = 0.0
    wait: float = 0.0
    micro_batches: int = 0


@dataclass(frozen=True)
class _Alive:
    """What is kept of a micro-batch from its forward to its backward pass."""

    #: The activation, or the loss of the last stage.
    output: Tensor
    arrival: Arrival | None


@final
class StagePasses:
    """This rank's layers between its neighbours."""

    def __init__(
        self,
        comm: Communicator,
        task: Task,
        *,
        layers: Sequence[nn.Module],
        borders: Sequence[Border],
        statistics: Buffers,
        channels_first: bool = False,
    ) -> None:
        """Collective. `borders` are all of the pipeline's."""
        self._channels_first = channels_first
        self._interval = SELDOM if on_one_host(comm) else INTERVAL
        self._stage, self._stages = comm.rank, comm.size
        self._task = task
        self._layers = layers
        self._statistics = statistics
        self._buffers = tuple(buffer for layer in layers for buffer in layer.buffers())
        alive = self._stages - self._stage
        self._device = device_of(task.model)
        self._previous = (
            Previous(comm, borders[self._stage - 1], alive=alive, device=self._device)
            if self._stage
            else None
        )
        self._next = Next(comm, borders[self._stage], device=self._device) if alive > 1 else None
        self._alive: dict[int, _Alive] = {}
        self._outcomes: list[Outcome] = []
        self._whole = 0.0  # the weight of the batch under way
        self.times = Times()

    def run(self, batch: Batch, parts: Sequence[Part]) -> Outcome:
        """Add to every `.grad` of the stage; the last stage has the outcome of its samples."""
        self._step = batch.step
        if self._next is None:
            self._whole = self._task.loss.whole(batch)
        self._parts = parts
        self._outcomes = []
        self._statistics.begin()
        with self._messages([part.count for part in parts]):
            for operation in one_forward_one_backward(
                self._stage, stages=self._stages, micro_batches=len(parts)
            ):
                if operation.kind == "forward":
                    self._forward(operation.micro_batch)
                else:
                    self._backward(operation.micro_batch)
        self.times.micro_batches += len(parts)
        return joined(self._outcomes)

    @torch.inference_mode()
    def outputs(self, inputs: Any) -> Tensor | None:
        """What the model makes of some samples, on the last stage; nothing is kept for training.

        While a stage computes, the one before it goes on to the next samples.
        """
        value: Tensor = inputs
        if self._previous is not None:
            value = self._previous.receive(len(inputs))
        for layer in self._layers:
            value = layer(value)
        if self._next is None:
            return value
        self._next.hand_on(value, len(inputs))
        return None

    @contextmanager
    def _messages(self, counts: Sequence[int]) -> Iterator[None]:
        """Be ready for those of a step, keep them moving meanwhile, and see that all are sent."""
        neighbours = [one for one in (self._previous, self._next) if one is not None]
        for neighbour in neighbours:
            neighbour.begin(counts)
        most = max(counts, default=0)
        large = any(one.border.form.bytes(most) >= _LARGE_MESSAGE for one in neighbours)
        if large:
            progress().begin(self._interval)
        try:
            yield
            if self._previous is not None:
                with self._counted("wait"):
                    self._previous.finish()
        finally:
            if large:
                progress().end()

    def _forward(self, micro_batch: int) -> None:
        part = self._parts[micro_batch]
        self._seed(part)
        value, arrival = self._start(micro_batch)
        with phase("load"):
            targets = part.targets() if self._next is None else None
        with self._counted("forward"):
            for layer in self._layers:
                value = layer(value)
            if targets is not None:
                value = self._finish_forward(value, targets)
        self._record(part)
        if self._next is not None:
            self._next.send(micro_batch, value)
        self._alive[micro_batch] = _Alive(value, arrival)

    def _record(self, part: Part) -> None:
        """Under shards, keep what a micro-batch made of the buffers, and put back what was there.

        That happens before its backward pass. BatchNorm's needs no running statistics that the
        forward pass has changed, but autograd takes any change for a mistake.
        """
        with _unsafe_preserve_version_counter(self._buffers):
            self._statistics.record(part.index)

    def _seed(self, part: Part) -> None:
        """Random numbers come from the shard; without shards each stage has its own for a part."""
        seed, border = self._task.seed, self._previous and self._previous.border
        if self._task.shards is None:
            seed_all(mix(seed, self._step, part.index, self._stage))
        elif border is None or not border.random:
            seed_part(seed, self._step, part.index)

    def _start(self, micro_batch: int) -> tuple[Any, Arrival | None]:
        """What the first layer is called with: samples, or what the stage before made of them."""
        if self._previous is None:
            with phase("load"):
                return self._parts[micro_batch].inputs(), None
        with self._counted("wait"):
            received = self._previous.take(micro_batch)
        if not self._previous.border.gradients:
            return self._laid_out(received), None
        arrival = Arrival(received)
        return self._laid_out(arrival.tensor()), arrival

    def _laid_out(self, received: Tensor) -> Tensor:
        """As this stage computes, which need not be how the stage before has sent it."""
        return received.contiguous() if self._channels_first else received

    def _finish_forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss, and with it the outcome of a micro-batch."""
        loss: Tensor = self._task.loss.function(outputs, targets)
        weight = self._task.loss.weight(targets)
        total = self._task.loss.total(number(loss), weight)
        self._outcomes.append(Outcome(total, targets, outputs.detach(), weight))
        return loss

    def _backward(self, micro_batch: int) -> None:
        alive = self._alive.pop(micro_batch)
        gradient = self._incoming_gradient(micro_batch, alive.output)
        if alive.output.requires_grad:
            with self._counted("backward"):
                alive.output.backward(gradient)  # type: ignore[no-untyped-call]
        if self._previous is not None and alive.arrival is not None:
            with self._counted("wait"):
                self._previous.give_back(micro_batch, alive.arrival.gradient)

    def _incoming_gradient(self, micro_batch: int, output: Tensor) -> Tensor | None:
        if self._next is None:
            share = self._task.loss.share(self._parts[micro_batch].count, self._whole)
            return torch.full_like(output, share)
        with self._counted("wait"):
            gradient = None
            if self._next.border.gradients:
                gradient = self._next.take_gradient(micro_batch)
            # Its gradient has come, so the activation has arrived; only where none comes back may
            # this wait.
            self._next.settle(micro_batch)
        return gradient

    @contextmanager
    def _counted(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        with phase(name):
            yield
        setattr(self.times, name, getattr(self.times, name) + time.perf_counter() - started)
