"""Initial weights: those of a name such as `uniform:0.12`, set in a model.

The weights of all linear and convolution layers are drawn anew from torch's random state, in the
order of definition, and their biases are zero. `uniform` draws biases as it draws weights. What
other layers have, BatchNorm for one, stays as it is.
"""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import init
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import is_lazy

from phalanx.errors import UsageError
from phalanx.models.initial import OWN, Initial, parse


def initialise(model: nn.Module, text: str) -> None:
    """Set a model's weights, which must be there to be set; `torch` leaves all as it is."""
    initial = parse(text)
    if initial.name == OWN:
        return
    fill = _filling(initial)
    layers = _layers(model, text)
    for layer in layers:
        fill(layer.weight)
        if layer.bias is not None:
            (fill if initial.name == "uniform" else init.zeros_)(layer.bias)


def _layers(model: nn.Module, text: str) -> list[nn.Linear | _ConvNd]:
    """The layers to initialise; none at all, or weights made from others, are refused."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear | _ConvNd)]
    if not layers:
        raise UsageError(f"init {text}: the model has no linear or convolution layer")
    for layer in layers:
        if not isinstance(layer.weight, nn.Parameter) or is_lazy(layer.weight):
            raise UsageError(
                f"init {text}: a {type(layer).__name__} has no weights to set, because they are "
                "lazy or made from others; initialise them in the model's own function"
            )
    return layers


def _filling(initial: Initial) -> Callable[[Tensor], Tensor]:
    number, fan = initial.number, initial.fan
    fillings: dict[str, Callable[[Tensor], Tensor]] = {
        "uniform": lambda tensor: init.uniform_(tensor, -number, number),
        "normal": lambda tensor: init.normal_(tensor, std=number),
        "xavier-uniform": lambda tensor: init.xavier_uniform_(tensor, gain=number),
        "xavier-normal": lambda tensor: init.xavier_normal_(tensor, gain=number),
        "orthogonal": lambda tensor: init.orthogonal_(tensor, gain=number),
        "kaiming-uniform": lambda tensor: init.kaiming_uniform_(
            tensor, mode=fan, nonlinearity="relu"
        ),
        "kaiming-normal": lambda tensor: init.kaiming_normal_(
            tensor, mode=fan, nonlinearity="relu"
        ),
        "zeros": init.zeros_,
    }
    return fillings[initial.name]
