"""A user's own model: a function, or a class, that makes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from phalanx import user_code
from phalanx.user_code import Kind, Source

if TYPE_CHECKING:
    from torch import nn

_MODEL = Kind("model", made_by="function")
FORMS = _MODEL.forms


def find(name: str) -> Source:
    """The file or module that a model's name stands for, which must exist; it is not run."""
    return user_code.find(name, _MODEL)


def build(name: str, *, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Call the user's function and return the module it makes."""
    from torch import nn

    source = find(name)
    function = user_code.load(source)
    if not callable(function):
        raise source.refusal(f"{source.attribute} is not a function in {source.place}")
    available = {"input_shape": input_shape, "classes": classes}
    model: object = function(**_accepted_by(function, source=source, available=available))
    if not isinstance(model, nn.Module):
        raise source.refusal(
            f"{source.place} must return a torch.nn.Module, got {type(model).__name__}"
        )
    return model


def _accepted_by(
    function: Callable[..., object], *, source: Source, available: dict[str, object]
) -> dict[str, object]:
    """The arguments among those available that the function declares."""
    if (getattr(function, "__module__", None) or "").startswith("torchvision."):
        # Its functions hand every keyword on to classes that know the classes by this name alone.
        return {"num_classes": available["classes"]}
    parameters = inspect.signature(function).parameters.values()
    by_keyword = {
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    for parameter in parameters:
        variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        given = parameter.name in by_keyword and parameter.name in available
        if not variable and not given and parameter.default is parameter.empty:
            raise source.refusal(
                f"its parameter {parameter.name!r} needs a default; "
                f"{' and '.join(available)} are what can be passed, by keyword"
            )
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return available
    return {key: value for key, value in available.items() if key in by_keyword}
