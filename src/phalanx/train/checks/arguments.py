"""What a Trainer is given, checked: a sentence about the cause, not an error from deep inside."""

from numbers import Integral

from torch import nn
from torch.optim import Optimizer

from phalanx.errors import UsageError
from phalanx.wording import a


def check_made_of(model: object, optimizer: object) -> None:
    """Refuse what is no model, and no optimizer of it."""
    if not isinstance(model, nn.Module):
        raise UsageError(f"a Trainer trains an nn.Module, not {a(model)}")
    if not isinstance(optimizer, Optimizer):
        raise UsageError(
            f"a Trainer's optimizer is one of torch's over the model's parameters, such as "
            f"torch.optim.Adam(model.parameters()), not {a(optimizer)}"
        )
    held = [one for group in optimizer.param_groups for one in group["params"]]
    known = set(model.parameters())
    if not any(one in known for one in held):
        raise UsageError(
            "the optimizer holds no parameter of the model, and would train nothing: make it of "
            "this model's parameters, after the model has got its final form"
        )


def check_whole(**values: object) -> None:
    """Refuse what is no whole number, but for None: half an epoch would be taken for one."""
    for name, value in values.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, Integral)):
            raise UsageError(f"{name} must be a whole number, not {value!r}")


def check_length(*, epochs: int, steps: int | None, steps_per_epoch: int | None) -> None:
    """Refuse a training of no sensible length."""
    check_whole(epochs=epochs, steps=steps, steps_per_epoch=steps_per_epoch)
    if epochs < 0:
        raise UsageError(f"epochs must be 0 or more, got {epochs}")
    for name, value in (("steps", steps), ("steps_per_epoch", steps_per_epoch)):
        if value is not None and value < 1:
            raise UsageError(f"{name} must be 1 or more, got {value}; leave it out for no limit")
