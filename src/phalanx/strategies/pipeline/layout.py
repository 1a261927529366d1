"""How a stage lays out its images: channels last, as convolutions are mostly fast with, or first.

A micro-batch has few samples. Where a stage has many weights beside them, as the last layers of a
VGG do, most of its time goes into gradients of weights, and oneDNN takes up to twice as long for
these with channels last. The choice is by numbers of elements, not by a stopwatch: the same model
and micro-batch are computed in the same way in every run.
"""

from collections.abc import Sequence

from torch import nn
from torch.optim import Optimizer

from phalanx.state.optimizer import like
from phalanx.strategies.pipeline.transfer import Form

#: Times as many weights as activations: passes through VGG-11 and VGG-16 took longer with channels
#: last from 6.6 on, and less at 3.3 and below, where ResNet-20 and small networks are.
_MANY = 5.0


def prefers_channels_first(
    layers: Sequence[nn.Module], outputs: Sequence[Form | str], *, samples: int
) -> bool:
    """Whether these layers, with outputs of this form, compute faster with channels first."""
    weights = activations = 0
    for layer, output in zip(layers, outputs, strict=True):
        own = sum(one.weight.numel() for one in _convolutions(layer))
        if own and isinstance(output, Form):
            weights += own
            activations += output.elements(samples)
    return weights > _MANY * activations


def put_channels_first(stage: nn.Module, optimizer: Optimizer) -> None:
    """Store a stage's weights in that order, and what an optimizer keeps about them."""
    for convolution in _convolutions(stage):
        weight = convolution.weight
        weight.data = weight.data.contiguous()
        kept = optimizer.state.get(weight, {})
        kept.update({name: like(value, weight) for name, value in kept.items()})


def _convolutions(layer: nn.Module) -> list[nn.Conv2d]:
    return [module for module in layer.modules() if isinstance(module, nn.Conv2d)]
