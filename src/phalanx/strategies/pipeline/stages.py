"""The layers of a sequential model, and where it may be cut between them.

A model is sequential if it is an `nn.Sequential`, whatever is nested in it, or if it has a method
`stages()` that gives the modules whose composition is its `forward`.
"""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torch import nn

from phalanx.errors import UsageError


def find_layers(model: nn.Module) -> list[nn.Module]:
    """The modules that a model is the composition of, in their order."""
    stages = getattr(model, "stages", None)
    if inspect.ismethod(stages):
        layers = list(_given(model, stages()))
    elif isinstance(model, nn.Sequential) and _is_plain(model):
        layers = list(_flattened(model))
    elif isinstance(model, nn.Sequential) and _has_hooks(model):
        raise UsageError(
            "strategy 'pipeline' calls layers one by one, so that hooks of the model as a whole "
            "would never run: remove them, or put the model into another nn.Sequential"
        )
    else:
        raise UsageError(
            f"strategy 'pipeline' cuts a model between layers, and cannot see those of "
            f"{type(model).__name__}: make it an nn.Sequential, or give it a method stages() that "
            "returns the modules whose composition is its forward"
        )
    _check_complete(model, layers)
    return layers


def _given(model: nn.Module, stages: Iterable[nn.Module]) -> Iterator[nn.Module]:
    for stage in stages:
        if not isinstance(stage, nn.Module):
            raise UsageError(
                f"{type(model).__name__}.stages() must give modules, and gave a "
                f"{type(stage).__name__}"
            )
        yield from _flattened(stage)


def _flattened(module: nn.Module) -> Iterator[nn.Module]:
    if isinstance(module, nn.Sequential) and _is_plain(module):
        for child in module:
            yield from _flattened(child)
    else:
        yield module


def _is_plain(module: nn.Sequential) -> bool:
    """Whether calling the module is calling its children: no other forward, no hooks."""
    return type(module).forward is nn.Sequential.forward and not _has_hooks(module)


def _has_hooks(module: nn.Module) -> bool:
    return any((module._forward_hooks, module._forward_pre_hooks, module._backward_hooks))


def _check_complete(model: nn.Module, layers: Sequence[nn.Module]) -> None:
    """Refuse a model whose layers leave out a parameter: nobody would train it."""
    covered = {id(parameter) for layer in layers for parameter in layer.parameters()}
    for name, parameter in model.named_parameters():
        if id(parameter) not in covered:
            raise UsageError(
                f"parameter {name!r} of {type(model).__name__} belongs to none of the modules that "
                "its stages() gives: their composition must be the whole model"
            )


def label(layers: Sequence[nn.Module], index: int) -> str:
    """A layer as messages name it."""
    return f"layer {index} ({type(layers[index]).__name__})"


@dataclass(frozen=True)
class Tie:
    """A parameter or buffer that several layers use: they must stay on one rank."""

    name: str
    first: int
    last: int


def find_ties(model: nn.Module, layers: Sequence[nn.Module]) -> list[Tie]:
    """What layers share, from the first that uses it to the last."""
    users: dict[int, list[int]] = {}
    for index, layer in enumerate(layers):
        for tensor in [*layer.parameters(), *layer.buffers()]:
            users.setdefault(id(tensor), []).append(index)
    named = [*model.named_parameters(), *model.named_buffers()]
    names = {id(tensor): name for name, tensor in named}
    return [
        Tie(names.get(key, "of no name"), indices[0], indices[-1])
        for key, indices in users.items()
        if indices[0] != indices[-1]
    ]


def check_cut(
    cut: Sequence[int], layers: Sequence[nn.Module], *, stages: int, ties: Sequence[Tie]
) -> None:
    """Refuse a user's cut that does not fit the model or the ranks."""
    if len(cut) != stages - 1:
        raise UsageError(
            f"cut {_spelled(cut)} makes {len(cut) + 1} stages, and the ranks of a replica are "
            f"{stages}: name {stages - 1} layers, or none to have the model cut by measured times"
        )
    if cut and cut[-1] >= len(layers):
        raise UsageError(
            f"cut {_spelled(cut)}: the model has layers 0 to {len(layers) - 1}, and the last stage "
            f"cannot begin with layer {cut[-1]}"
        )
    for tie in ties:
        for start in cut:
            if tie.first < start <= tie.last:
                raise UsageError(
                    f"cut {_spelled(cut)}: {tie.name!r} is shared by "
                    f"{label(layers, tie.first)} and {label(layers, tie.last)}, which must be in "
                    f"one stage: cut at {tie.first} or before, or behind {tie.last}"
                )


def check_count(layers: Sequence[nn.Module], stages: int) -> None:
    """Refuse more stages than there are layers."""
    if len(layers) < stages:
        raise UsageError(
            f"strategy 'pipeline' gives every rank a layer or more, and the model has "
            f"{len(layers)} for {stages} ranks: start fewer, or use more replicas"
        )


def _spelled(cut: Sequence[int]) -> str:
    return ",".join(map(str, cut))
