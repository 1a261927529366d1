"""A stage's two neighbours in a pipeline: what it gets from each, and what it gives to each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.errors import UsageError
from phalanx.strategies.building_blocks.randomness import random_state, set_random_state
from phalanx.strategies.pipeline.transfer import (
    ACTIVATION,
    GRADIENT,
    RANDOM_STATE,
    Form,
    Incoming,
    Outgoing,
)

#: At most one gradient is on its way back while the next is computed from what came in one buffer
#: and another is received in a third. A stage without weights gives back the memory that it got.
_GRADIENT_SLOTS = 3


@dataclass(frozen=True)
class Border:
    """What passes between two stages for each micro-batch."""

    form: Form
    #: Whether anything before the border is trained, so that gradients come back.
    gradients: bool
    #: Whether the state of the random numbers goes with the activation.
    random: bool
    #: The layer before it, as messages name it.
    layer: str

    def messages(self, count: int) -> tuple[int, ...]:
        """The bytes of each message for so many samples."""
        size = self.form.bytes(count)
        return (size, size) if self.gradients else (size,)


@final
class Previous:
    """The stage before this one."""

    def __init__(
        self, comm: Communicator, border: Border, *, alive: int, device: torch.device
    ) -> None:
        """At most `alive` activations are in use at a time, on a device."""
        source = comm.rank - 1
        self._comm, self._device = comm, device
        self.border = border
        self._activations = Incoming(comm, source, slots=alive + 1, tag=ACTIVATION, device=device)
        self._states = Incoming(comm, source, slots=2, tag=RANDOM_STATE, device=torch.device("cpu"))
        self._gradients = Outgoing(comm, source, tag=GRADIENT)

    def begin(self, counts: Sequence[int]) -> None:
        """Be ready for micro-batches of so many samples."""
        self._counts = counts
        form = self.border.form
        self._activations.begin([form.elements(count) for count in counts], form.dtype)
        if self.border.random:
            size = random_state(self._device).numel()
            self._states.begin([size] * len(counts), torch.uint8)

    def take(self, micro_batch: int) -> Tensor:
        """Wait for an activation; random numbers go on from where the stage before stopped."""
        flat = self._activations.take(micro_batch)
        if self.border.random:
            set_random_state(self._states.take(micro_batch), self._device)
        return self.border.form.shaped(flat, self._counts[micro_batch])

    def receive(self, count: int) -> Tensor:
        """Wait for the activation of so many samples, outside of a training step."""
        form = self.border.form
        flat = torch.empty(form.elements(count), dtype=form.dtype, device=self._device)
        self._comm.receive(flat, self._comm.rank - 1, tag=ACTIVATION)
        return form.shaped(flat, count)

    def give_back(self, micro_batch: int, gradient: Tensor | None) -> None:
        """Send the gradient of an activation; None, where it made no difference, is zero."""
        form = self.border.form
        self._gradients.settle(micro_batch - 1)
        if gradient is None:
            count = form.elements(self._counts[micro_batch])
            message = torch.zeros(count, dtype=form.dtype, device=self._device)
        else:
            message = form.flat(gradient)
        self._gradients.send(micro_batch, message)

    def finish(self) -> None:
        """Wait until everything is sent."""
        self._gradients.settle(len(self._counts))


@final
class Next:
    """The stage behind this one."""

    def __init__(self, comm: Communicator, border: Border, *, device: torch.device) -> None:
        to = comm.rank + 1
        self._comm, self._device = comm, device
        self.border = border
        self._activations = Outgoing(comm, to, tag=ACTIVATION)
        self._states = Outgoing(comm, to, tag=RANDOM_STATE)
        self._gradients = Incoming(comm, to, slots=_GRADIENT_SLOTS, tag=GRADIENT, device=device)

    def begin(self, counts: Sequence[int]) -> None:
        """Be ready for micro-batches of so many samples."""
        self._counts = counts
        form = self.border.form
        if self.border.gradients:
            self._gradients.begin([form.elements(count) for count in counts], form.dtype)

    def send(self, micro_batch: int, activation: Tensor) -> None:
        """Hand an activation on, and with it the state of the random numbers."""
        self._check(activation, self._counts[micro_batch])
        self._activations.send(micro_batch, self.border.form.flat(activation))
        if self.border.random:
            self._states.send(micro_batch, random_state(self._device))

    def hand_on(self, activation: Tensor, count: int) -> None:
        """Send the activation of so many samples, outside of a training step."""
        self._check(activation, count)
        self._comm.send(self.border.form.flat(activation), self._comm.rank + 1, tag=ACTIVATION)

    def _check(self, activation: Tensor, count: int) -> None:
        expected = (count, *self.border.form.shape)
        if not isinstance(activation, Tensor) or tuple(activation.shape) != expected:
            came = getattr(activation, "shape", type(activation).__name__)
            raise UsageError(
                f"strategy 'pipeline': {self.border.layer} gave {came}, and {expected} was "
                "expected from the first batch: cut the model behind a layer whose output has the "
                "samples as its first dimension, and the same shape for each"
            )

    def take_gradient(self, micro_batch: int) -> Tensor:
        """Wait for the gradient of an activation."""
        flat = self._gradients.take(micro_batch)
        return self.border.form.shaped(flat, self._counts[micro_batch])

    def settle(self, micro_batch: int) -> None:
        """Wait until this micro-batch has been sent."""
        self._activations.settle(micro_batch)
        self._states.settle(micro_batch)
