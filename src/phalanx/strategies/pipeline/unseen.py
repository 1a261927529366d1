"""What is found out about a model in parts before it is cut: all but what only values could tell.

A rank has no memory for the layers of others, so that none of it is measured: the cut is the one
whose largest stage has the fewest bytes. The form of activations comes from layers without values.
"""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from phalanx.errors import UsageError
from phalanx.strategies.pipeline.balance import Costs, Link, best_cut
from phalanx.strategies.pipeline.measuring import Survey, form_of
from phalanx.strategies.pipeline.stages import Tie, label


def cut_by_bytes(
    layers: Sequence[nn.Module], ties: Sequence[Tie], *, stages: int
) -> tuple[int, ...]:
    """The layers that stages but the first begin with, if the largest is to be the smallest."""
    tied = {start for tie in ties for start in range(tie.first + 1, tie.last + 1)}
    starts = [start for start in range(len(layers)) if start not in tied]
    if len(starts) < stages:
        shared = "; ".join(
            f"{tie.name!r} is shared by layers {tie.first} to {tie.last}" for tie in ties
        )
        raise UsageError(
            f"strategy 'pipeline' can cut this model into {len(starts)} stages at most, and not "
            f"into {stages}: {shared}"
        )
    sizes = [_bytes(layers[start:stop]) for start, stop in pairwise([*starts, len(layers)])]
    links = (Link(0.0, 0.0),) * (stages - 1)
    best = best_cut(Costs(tuple(sizes), ((),) * len(sizes), links))
    return tuple(starts[part] for part in best)


def _bytes(layers: Sequence[nn.Module]) -> float:
    return float(sum(one.nbytes for one in nn.ModuleList(layers).parameters()))


def survey_unseen(layers: Sequence[nn.Module], inputs: Tensor) -> Survey:
    """What a forward pass would show, found out without a value."""
    outputs = []
    value: Any = inputs.to("meta")
    with torch.no_grad():
        for index, layer in enumerate(layers):
            try:
                value = functional_call(layer, _without_values(layer), (value,))
            except Exception as error:
                cause = " ".join(f"{type(error).__name__}: {error}".split())[:200]
                raise UsageError(
                    f"strategy 'pipeline', a model in parts: {label(layers, index)} does not tell "
                    f"the shape of its output without values ({cause}): write its forward so that "
                    "shapes do not depend on values"
                ) from error
            outputs.append(form_of(value, count=len(inputs)))
    return Survey(tuple(outputs), random=True)  # for all that anybody can tell


def _without_values(layer: nn.Module) -> dict[str, Tensor]:
    named = chain(layer.named_parameters(), layer.named_buffers())
    return {name: torch.empty_like(one, device="meta") for name, one in named}
