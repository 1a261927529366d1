"""What is found out about a model before it is cut: the form of its activations, and its times.

All of it happens on the first micro-batch, and leaves no trace: buffers, gradients and the state of
torch's random numbers are afterwards what they were.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from phalanx.comm.base import Communicator
from phalanx.data.split import Samples
from phalanx.strategies.base import Loss
from phalanx.strategies.building_blocks.preserve import preserved, settle
from phalanx.strategies.building_blocks.randomness import random_state
from phalanx.strategies.pipeline.balance import Link
from phalanx.strategies.pipeline.transfer import Arrival, Form
from phalanx.wording import a

#: Rounds of measuring behind the first, which warms up: as many as fit in the seconds.
_FEWEST_ROUNDS, _MOST_ROUNDS, _SECONDS = 3, 20, 0.25
_LARGE_MESSAGE = 1 << 18
_PING_PONGS = 5


@dataclass(frozen=True)
class Survey:
    """What a forward pass shows."""

    #: Behind each layer: the form of its output, or why a model cannot be cut there.
    outputs: tuple[Form | str, ...]
    #: Whether any layer draws random numbers.
    random: bool


def survey(layers: Sequence[nn.Module], inputs: Tensor) -> Survey:
    """Send a micro-batch through all layers, and look at what comes out of each."""
    outputs: list[Form | str] = []
    device = inputs.device if isinstance(inputs, Tensor) else torch.device("cpu")
    with preserved(layers), torch.no_grad():
        random = random_state(device)
        value: Any = inputs.clone()
        for layer in layers:
            value = layer(value)
            outputs.append(form_of(value, count=len(inputs)))
        draws = not torch.equal(random, random_state(device))
    return Survey(tuple(outputs), draws)


def form_of(value: Any, *, count: int) -> Form | str:
    """The form of a layer's output, or why a model cannot be cut behind it."""
    if not isinstance(value, Tensor):
        return f"gives {a(value)}, not a tensor"
    if not value.is_floating_point():
        return f"gives {value.dtype}, which has no gradient"
    if value.dim() == 0 or value.shape[0] != count:
        return f"gives shape {tuple(value.shape)} for {count} samples, which must come first"
    return Form.of(value)


@dataclass(frozen=True)
class Passes:
    """The seconds of a part of a model for a micro-batch."""

    forward: float
    backward: float


def time_parts(
    layers: Sequence[nn.Module], starts: Sequence[int], *, samples: Samples, loss: Loss
) -> list[Passes]:
    """The fastest passes seen through each part; parts begin with these layers."""
    bounds = [*starts, len(layers)]
    parts = [_Part(layers[start:stop]) for start, stop in pairwise(bounds)]
    parts[-1].finish_with(loss, samples.targets)
    with preserved(layers):
        value = samples.inputs
        for part, layer in zip(parts, starts, strict=True):
            trains = any(one.requires_grad for before in layers[:layer] for one in _weights(before))
            value = part.prepare(value, trains=trains)
        return _fastest([_round(parts) for _ in _rounds()][1:])


def _weights(layer: nn.Module) -> Iterator[nn.Parameter]:
    return layer.parameters()


def _rounds() -> Iterator[None]:
    started = time.perf_counter()
    for number in range(1 + _MOST_ROUNDS):
        if number > _FEWEST_ROUNDS and time.perf_counter() - started > _SECONDS:
            return
        yield


def _round(parts: Sequence["_Part"]) -> list[Passes]:
    return [part.run() for part in parts]


def _fastest(rounds: Sequence[Sequence[Passes]]) -> list[Passes]:
    return [
        Passes(min(one.forward for one in seen), min(one.backward for one in seen))
        for seen in zip(*rounds, strict=True)
    ]


class _Part:
    """Some layers, with the input that they get and the gradient that comes back to them."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        self._layers, self._all = layers, nn.ModuleList(layers)
        self._loss: Loss | None = None
        self._weights = [one for layer in layers for one in layer.parameters() if one.requires_grad]

    def finish_with(self, loss: Loss, targets: Tensor) -> None:
        """Have the loss follow the layers."""
        self._loss, self._targets = loss, targets

    def prepare(self, inputs: Tensor, *, trains: bool) -> Tensor:
        """Keep the input, which a gradient is wanted for if `trains`; returns the output."""
        self._inputs, self._trains = inputs, trains
        with torch.no_grad():
            output: Tensor = self._forward(inputs.clone())
        return output

    def run(self) -> Passes:
        """A pass forward and one backward, which leaves all gradients as they are."""
        inputs = self._inputs.clone()  # layers may work in place
        wanted: list[Tensor] = list(self._weights)
        started = self._now()
        if self._trains:
            arrival = Arrival(inputs)
            wanted.append(arrival.anchor)
            inputs = arrival.tensor()
        output = self._forward(inputs)
        between = self._now()
        if not output.requires_grad:
            return Passes(between - started, 0.0)
        gradient = torch.ones_like(output)
        then = self._now()
        torch.autograd.grad(output, wanted, gradient, allow_unused=True)
        return Passes(between - started, self._now() - then)

    def _now(self) -> float:
        settle(self._all)
        return time.perf_counter()

    def _forward(self, value: Any) -> Tensor:
        for layer in self._layers:
            value = layer(value)
        if self._loss is not None:
            value = self._loss.function(value, self._targets)
        output: Tensor = value
        return output


def measure_links(comm: Communicator) -> tuple[Link, ...]:
    """Collective. What messages between each rank and the next take, by a short ping-pong."""
    mine: list[Link] = []
    for turn in range(2):  # every rank takes part in one ping-pong at a time
        for left in range(turn, comm.size - 1, 2):
            if comm.rank in (left, left + 1):
                mine += _ping_pong(comm, left)
        comm.barrier()
    everyone = comm.allgather_objects(mine)
    return tuple(link for links in everyone for link in links)


def _ping_pong(comm: Communicator, left: int) -> list[Link]:
    """The link between a rank and the next; the left one knows."""
    small = _one_way(comm, left, torch.zeros(1, dtype=torch.uint8))
    large = _one_way(comm, left, torch.zeros(_LARGE_MESSAGE, dtype=torch.uint8))
    if comm.rank != left:
        return []
    return [Link(latency=small, seconds_per_byte=max(0.0, large - small) / _LARGE_MESSAGE)]


def _one_way(comm: Communicator, left: int, message: Tensor) -> float:
    fastest = float("inf")
    for _ in range(1 + _PING_PONGS):
        started = time.perf_counter()
        if comm.rank == left:
            comm.send(message, left + 1)
            comm.receive(message, left + 1)
        else:
            comm.receive(message, left)
            comm.send(message, left)
        fastest = min(fastest, time.perf_counter() - started)
    return fastest / 2
