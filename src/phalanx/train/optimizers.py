"""The optimizers by name, straight from torch.optim."""

from collections.abc import Iterable

from torch import nn
from torch.optim import SGD, Adam, Optimizer

from phalanx.train.settings import Settings


def make_optimizer(settings: Settings, parameters: Iterable[nn.Parameter]) -> Optimizer:
    """The optimizer that the settings name, over these parameters, in torch's fused form."""
    rate = settings.learning_rate
    if settings.optimizer == "adam":
        return Adam(parameters, lr=0.001 if rate is None else rate, fused=True)
    return SGD(
        parameters,
        lr=0.05 if rate is None else rate,
        momentum=settings.momentum or 0.0,
        fused=True,
    )
