"""Which layers of a model are split over ranks, and how.

Two layers that follow each other are split as a pair: the first by its outputs, the second by its
inputs, and whatever lies between works on slices. Their ranks meet once in a forward pass, for the
sum of the second's outputs, and once in a backward pass, for the gradient of the first's inputs. A
layer without a partner costs two meetings of its own, and so stays whole if it is small.

The layers around the heads of attention are such a pair: each rank has some heads, with their part
of the layer that makes queries, keys and values, and of the one that reads what the heads make.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from torch import nn

from phalanx.data.batches import cut
from phalanx.models.attention import CausalHeads
from phalanx.strategies.base import TextTable
from phalanx.strategies.tensor.graph import Run, Step, find_runs

#: `output` and `input` are ways to split a layer; the others lie between a pair, on its slices.
How = Literal["output", "input", "norm", "dropout"]

#: A layer of fewer weights that has no partner is not worth a meeting of its ranks.
_WORTH_SPLITTING = 4096


@dataclass(frozen=True)
class Split:
    """How one module is split: `width` channels, features or heads, cut evenly, `unit` elements
    each.
    """

    name: str
    how: How
    width: int
    unit: int = 1
    partner: str | None = None
    #: Whether slices are those of an image's channels, and not of the last dimension.
    images: bool = False
    #: The first layer of the pair: the container without which the pair is not known to be one.
    container: str | None = None

    def slices(self, parts: int) -> list[slice]:
        """The elements of each rank."""
        unit = self.unit
        return [slice(one.start * unit, one.stop * unit) for one in cut(self.width, parts)]


@dataclass(frozen=True)
class Pair:
    """Two layers, and the modules between them that must be split too."""

    first: Step
    second: Step
    between: tuple[Split, ...]
    #: What is cut: outputs of the first, or heads of attention.
    width: int
    #: How many outputs of the first, and inputs of the second, belong to one of these.
    units: tuple[int, int]


def make_plan(model: nn.Module, ranks: int) -> tuple[Split, ...]:
    """Every module that is split over so many ranks; the same for the same model."""
    if ranks == 1:
        return ()
    modules = dict(model.named_modules())
    splits: list[Split] = []
    for run in find_runs(model):
        layers = [index for index, step in enumerate(run.steps) if step.kind == "layer"]
        paired: set[str] = set()
        for pair in _choose_pairs(run, layers, modules=modules, ranks=ranks):
            splits += _split_pair(pair, modules, container=run.container)
            paired |= {pair.first.name, pair.second.name}
        alone = (run.steps[index].name for index in layers)
        splits += [
            split
            for name in alone
            if name not in paired and (split := _split_alone(name, modules[name], ranks=ranks))
        ]
    return tuple(splits)


def _choose_pairs(
    run: Run, layers: Sequence[int], *, modules: dict[str, nn.Module], ranks: int
) -> list[Pair]:
    """Of all ways to pair neighbours in a run, the one with the most weights in pairs."""
    before: tuple[int, list[Pair]] = (0, [])
    best: tuple[int, list[Pair]] = (0, [])
    for first, second in pairwise(layers):
        pair = _pair(run.steps[first : second + 1], modules, ranks=ranks)
        with_pair = before
        if pair is not None:
            names = (pair.first.name, pair.second.name)
            weights = sum(_weights(modules[name]) for name in names)
            with_pair = (before[0] + weights, [*before[1], pair])
        before, best = best, max(best, with_pair, key=lambda one: one[0])
    return best[1]


def _pair(steps: Sequence[Step], modules: dict[str, nn.Module], *, ranks: int) -> Pair | None:
    """The pair of the first and the last step, if all between them works on slices."""
    first, second = modules[steps[0].name], modules[steps[-1].name]
    heads = [modules[step.name] for step in steps if step.kind == "heads"]
    if heads:
        return _pair_around(heads, steps, modules, ranks=ranks)
    width = _outputs(first)
    if width < ranks:
        return None
    images = isinstance(first, nn.Conv2d)
    between = []
    for step in steps[1:-1]:
        if step.kind == "flatten" and images:
            images = False
        elif step.kind in ("norm", "dropout"):
            split = _split_between(step, modules[step.name], width=width, images=images)
            if split is None:
                return None
            between.append(split)
        elif step.kind != "elementwise" and not (step.kind == "channelwise" and images):
            return None
    flattened = isinstance(first, nn.Conv2d) and not images
    fits = _inputs(second) % width == 0 if flattened else _inputs(second) == width
    if not fits or images != isinstance(second, nn.Conv2d):
        return None
    units = (1, _inputs(second) // width)
    return Pair(steps[0], steps[-1], tuple(between), width=width, units=units)


def _pair_around(
    heads: Sequence[nn.Module],
    steps: Sequence[Step],
    modules: dict[str, nn.Module],
    *,
    ranks: int,
) -> Pair | None:
    """The pair of the layers before and behind heads of attention, if nothing else is between."""
    first, second = modules[steps[0].name], modules[steps[-1].name]
    if len(steps) != 3 or not isinstance(heads[0], CausalHeads):
        return None
    if isinstance(first, nn.Conv2d) or isinstance(second, nn.Conv2d):
        return None
    size = heads[0].size
    width, units = _inputs(second) // size, (size * CausalHeads.parts, size)
    fits = _outputs(first) == width * units[0] and _inputs(second) == width * units[1]
    return Pair(steps[0], steps[-1], (), width, units) if fits and width >= ranks else None


def _split_between(step: Step, module: nn.Module, *, width: int, images: bool) -> Split | None:
    if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
        if isinstance(module, nn.BatchNorm2d) != images or module.num_features % width:
            return None
        unit = module.num_features // width
        return Split(step.name, "norm", width, unit=unit, images=images)
    if isinstance(module, nn.Dropout2d) and not images:
        return None
    return Split(step.name, "dropout", width, images=images)


def _split_pair(
    pair: Pair, modules: dict[str, nn.Module], *, container: str | None
) -> tuple[Split, ...]:
    first, second = pair.first.name, pair.second.name
    images = [isinstance(modules[name], nn.Conv2d) for name in (first, second)]
    width, units = pair.width, pair.units
    return (
        Split(first, "output", width, units[0], second, images=images[0], container=container),
        *pair.between,
        Split(second, "input", width, unit=units[1], partner=first, images=images[1]),
    )


def _split_alone(name: str, layer: nn.Module, *, ranks: int) -> Split | None:
    """Split by the side whose exchange is cheaper: a sum costs about twice a gathering.

    By output, outputs are gathered and the inputs' gradients are sums; by input, the other way
    round. The larger of the two is better gathered.
    """
    if _weights(layer) < _WORTH_SPLITTING:
        return None
    images = isinstance(layer, nn.Conv2d)
    inputs, outputs = _inputs(layer), _outputs(layer)
    pixels = layer.stride[0] * layer.stride[1] if isinstance(layer, nn.Conv2d) else 1
    how: How = "input" if inputs * pixels > outputs else "output"
    if (inputs if how == "input" else outputs) < ranks:
        how = "output" if how == "input" else "input"
    width = inputs if how == "input" else outputs
    return Split(name, how, width, images=images) if width >= ranks else None


def _inputs(layer: nn.Module) -> int:
    assert isinstance(layer, nn.Linear | nn.Conv2d)
    return layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels


def _outputs(layer: nn.Module) -> int:
    assert isinstance(layer, nn.Linear | nn.Conv2d)
    return layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels


def _weights(layer: nn.Module) -> int:
    assert isinstance(layer, nn.Linear | nn.Conv2d)
    return layer.weight.numel()


def plan_table(model: nn.Module, plan: Sequence[Split], *, ranks: int) -> TextTable:
    """A row for each layer, split or not; call it while the model is whole."""
    splits = {split.name: split for split in plan}
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
    }
    rows = [_row(name, layer, splits.get(name), ranks=ranks) for name, layer in layers.items()]
    columns = ("layer", "split", "partner", "share of each rank", "weights a rank")
    return TextTable("Split layers", columns, tuple(rows))


def _row(
    name: str, layer: nn.Linear | nn.Conv2d, split: Split | None, *, ranks: int
) -> tuple[str, ...]:
    count = layer.weight.numel()
    biases = 0 if layer.bias is None else layer.bias.numel()
    if split is None:
        return name, "whole", "–", "–", f"{count + biases:,}"
    sizes = [one.stop - one.start for one in split.slices(ranks)]
    if split.how == "output":
        biases = biases and sizes[0]
    return (
        name,
        f"by {split.how}",
        split.partner or "–",
        f"{sum(sizes)} = {' + '.join(map(str, sizes))}",
        f"{count // sum(sizes) * sizes[0] + biases:,}",
    )
