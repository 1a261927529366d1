"""What one sample costs on its way through a model that is split over ranks, in bytes sent.

Found by sending a sample of zeros through a copy of the model.
"""

import copy
from functools import partial

import torch
from torch import Tensor, nn

from phalanx.strategies.pipeline.stages import check_count, find_layers
from phalanx.strategies.tensor.plan import Split, make_plan


def crossings(model: nn.Module, sample: Tensor, *, stages: int) -> list[int]:
    """For each place that a model can be cut at, what would cross a cut there, and come back."""
    layers = copy.deepcopy(find_layers(model))
    check_count(layers, stages)
    places = []
    trained = False
    with torch.no_grad():
        for layer in layers[:-1]:
            sample = layer.eval()(sample)
            # Nothing comes back to layers that have nothing to learn.
            trained = trained or any(one.requires_grad for one in layer.parameters())
            if isinstance(sample, Tensor):
                places.append(sample.nbytes * (1 + trained))
    return places


def meetings(model: nn.Module, sample: Tensor, *, ranks: int) -> int:
    """What the ranks exchange about a sample inside a model whose layers are split."""
    plan = make_plan(model, ranks)
    modules = dict(copy.deepcopy(model).eval().named_modules())
    exchanged = 0

    def note(split: Split, _layer: nn.Module, inputs: tuple[Tensor], outputs: Tensor) -> None:
        nonlocal exchanged
        exchanged += _exchanged(split, inputs[0], outputs, ranks=ranks)

    for split in plan:
        if split.how in ("input", "output"):
            modules[split.name].register_forward_hook(partial(note, split))
    modules[""](sample)
    return exchanged


def _exchanged(split: Split, inputs: Tensor, outputs: Tensor, *, ranks: int) -> int:
    """A sum takes the whole of a tensor from every rank, a gathering a slice of it from each."""
    back = inputs.nbytes if inputs.requires_grad else 0  # nobody asks for that of the samples
    alone = split.partner is None
    if split.how == "output":
        return ranks * back + alone * outputs.nbytes
    return ranks * outputs.nbytes + alone * back
