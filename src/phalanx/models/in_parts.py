"""A model that no rank ever holds as a whole: made as ever, but without memory for its weights.

`in_parts(make)` calls a function that makes a model, as torch would, and keeps how each weight came
to its values instead of the values. A strategy that shares a model out then has each rank make its
own part, with the numbers that the whole model would have had.
"""

from collections.abc import Callable
from typing import ParamSpec, final

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from phalanx.errors import UsageError
from phalanx.models.memory import Place
from phalanx.models.recorded import Record
from phalanx.wording import a

_NAME = "_phalanx_initial"
P = ParamSpec("P")


@final
class Initial:
    """What a parameter is at first."""

    def __init__(self, record: Record, place: Place) -> None:
        self.record = record
        self._place = place

    def values(self) -> Tensor:
        """All of it, in memory of its own."""
        return self.record.values(self._place)


def in_parts(make: Callable[P, nn.Module], *args: P.args, **kwargs: P.kwargs) -> nn.Module:
    """The model that `make(…)` gives, with parameters that have shapes and no values yet.

    Make the optimizer of it and a `Trainer` with strategy 'pipeline' or 'tensor': each rank then
    makes its part. torch's random numbers go on as if the model had been made as a whole.
    """
    record = Record()
    with record:
        model = make(*args, **kwargs)
    if not isinstance(model, nn.Module):
        raise UsageError(f"in_parts: {make!r} gave {a(model)}, not an nn.Module")
    for name, parameter in model.named_parameters():
        if is_lazy(parameter) or parameter.device.type != "cpu":
            what = "has no shape yet" if is_lazy(parameter) else f"is on {parameter.device}"
            raise UsageError(f"in_parts: '{name}' {what}, and parts are made in CPU memory")
        initial = Initial(record, record.place(parameter))
        give_memory(parameter, torch.empty_like(parameter.detach(), device="meta"))
        setattr(parameter, _NAME, initial)
    record.finish()
    return model


def give_memory(parameter: nn.Parameter, memory: Tensor) -> None:
    """Have a parameter be where `memory` is; whoever holds the parameter holds it still."""
    other = nn.Parameter(memory, requires_grad=parameter.requires_grad)
    vars(other).update(vars(parameter))
    torch.utils.swap_tensors(parameter, other)  # type: ignore[no-untyped-call]


def is_in_parts(model: nn.Module) -> bool:
    """Whether some parameters of a model have no values here."""
    return any(parameter.is_meta for parameter in model.parameters())


def device_of(model: nn.Module) -> torch.device:
    """Where a model is: where its first parameter is; one in parts is in CPU memory."""
    first: Tensor | None = next(model.parameters(), None)
    return torch.device("cpu") if first is None or first.is_meta else first.device


def dtype_of(model: nn.Module) -> torch.dtype:
    """What a model computes in: the dtype of its first parameter that is no whole number."""
    for parameter in model.parameters():
        if parameter.is_floating_point() or parameter.is_complex():
            return parameter.dtype
    return torch.get_default_dtype()


def forget_initial(parameter: nn.Parameter) -> None:
    """From now on a parameter is not what it was at first."""
    vars(parameter).pop(_NAME, None)


def initial_of(name: str, parameter: nn.Parameter) -> Initial:
    """What a parameter without values is at first."""
    found: Initial | None = getattr(parameter, _NAME, None)
    if found is None:
        raise UsageError(
            f"parameter '{name}' is on the meta device, where it has no values, and nobody knows "
            "how to make them (any more, if it was in a Trainer before): make the model anew, by "
            "phalanx.in_parts(FUNCTION)"
        )
    return found
