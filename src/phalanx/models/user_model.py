"""A user's own model: a function, or a class, that makes it."""

from collections.abc import Mapping

from torch import nn

from phalanx import user_code
from phalanx.models.user import find


def build(
    name: str, options: Mapping[str, object], *, input_shape: tuple[int, ...], classes: int
) -> nn.Module:
    """Call the user's function and return the module it makes."""
    source = find(name)
    function = user_code.load_function(source)
    if isinstance(function, nn.Module):
        raise source.refusal(
            f"{source.place} is a model already, and every training begins with a new one: name "
            "the function or class that makes it"
        )
    available = {"input_shape": input_shape, "classes": classes}
    if (getattr(function, "__module__", None) or "").startswith("torchvision."):
        # Its functions hand every keyword on to classes that know the classes by this name alone.
        given: dict[str, object] = {"num_classes": classes}
    else:
        given = user_code.arguments(function, source=source, available=available)
    model: object = function(**given, **options)
    if not isinstance(model, nn.Module):
        raise source.refusal(
            f"{source.place} must return a torch.nn.Module, got {type(model).__name__}"
        )
    return model
