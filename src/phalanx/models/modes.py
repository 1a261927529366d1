"""Whether modules train or are evaluated: users freeze some of a model that trains by `eval()`."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def kept_modes(model: nn.Module) -> Iterator[None]:
    """Put the mode of every module back at the end."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def have_train(model: nn.Module) -> None:
    """Have a model train that is in evaluation as a whole; one that trains keeps what is frozen."""
    if not model.training:
        model.train()
