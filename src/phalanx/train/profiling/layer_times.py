"""What each layer of a model takes, forward and backward, found out in a few passes of its own.

Watching every layer of a training would slow it down, so that is not done: the passes come after
it, and leave the model, its gradients and torch's random numbers as they were. A layer's backward
pass is taken to last from when the gradient of its output is there until the next such moment.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor, nn

from phalanx.data.split import Samples
from phalanx.models.modes import have_train, kept_modes
from phalanx.strategies.base import Loss, TextTable
from phalanx.strategies.building_blocks.preserve import preserved, settle

_PASSES = 5


def layer_times(model: nn.Module, loss: Loss, samples: Samples) -> TextTable:
    """The fastest of a few passes through every layer that has no layers inside."""
    layers = {name: layer for name, layer in model.named_modules() if _is_leaf(layer)}
    with kept_modes(model), preserved([model]):
        have_train(model)
        rounds = [_one_pass(model, layers, loss, samples) for _ in range(1 + _PASSES)][1:]
    fastest = {
        name: (
            min(forward[name] for forward, _ in rounds),
            min(backward[name] for _, backward in rounds),
        )
        for name in layers
    }
    whole = sum(sum(pair) for pair in fastest.values()) or 1.0
    rows = [
        (
            *(name or "model", type(layers[name]).__name__),
            *(f"{forward * 1e3:.3f}", f"{backward * 1e3:.3f}"),
            f"{(forward + backward) / whole:.1%}",
        )
        for name, (forward, backward) in fastest.items()
    ]
    title = f"Layers, {len(samples.targets)} samples on one rank"
    return TextTable(title, ("layer", "type", "forward ms", "backward ms", "share"), tuple(rows))


def _is_leaf(layer: nn.Module) -> bool:
    return next(layer.children(), None) is None


Seconds = dict[str, float]


def _one_pass(
    model: nn.Module, layers: dict[str, nn.Module], loss: Loss, samples: Samples
) -> tuple[Seconds, Seconds]:
    """The seconds of each layer; one that is called several times has them added up."""
    forward: Seconds = defaultdict(float)
    marks: list[tuple[float, str]] = []

    def now() -> float:
        settle(model)
        return time.perf_counter()

    with _watched(layers, forward, marks, now):
        value = loss.function(model(samples.inputs), samples.targets)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if trained:
        torch.autograd.grad(value, trained, allow_unused=True)
    marks.append((now(), ""))
    backward: Seconds = defaultdict(float)
    for (start, name), (stop, _) in pairwise(marks):
        backward[name] += stop - start
    return forward, backward


@contextmanager
def _watched(
    layers: dict[str, nn.Module],
    forward: Seconds,
    marks: list[tuple[float, str]],
    now: Callable[[], float],
) -> Iterator[None]:
    """Inside, calls of the layers are timed, and have gradients of their outputs leave a mark."""
    handles = []

    def watch(name: str, layer: nn.Module) -> None:
        started: list[float] = []

        def before(_layer: nn.Module, _inputs: object) -> None:
            started.append(now())

        def after(_layer: nn.Module, _inputs: object, output: object) -> None:
            forward[name] += now() - started.pop()
            if isinstance(output, Tensor) and output.requires_grad:
                output.register_hook(mark)  # type: ignore[no-untyped-call]

        def mark(_gradient: Tensor) -> None:
            marks.append((now(), name))

        handles.extend(
            [layer.register_forward_pre_hook(before), layer.register_forward_hook(after)]
        )

    for name, layer in layers.items():
        watch(name, layer)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
