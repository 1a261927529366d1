"""Whether a user's own model answers in the form that losses and predictions need."""

import torch
from torch import Tensor, nn

from phalanx.errors import UsageError
from phalanx.train.compute import device_of


def check_outputs(
    model: nn.Module, name: str, *, input_shape: tuple[int, ...], classes: int, dtype: torch.dtype
) -> None:
    """Refuse a model that does not give a number for every class, for each sample."""
    was_training = model.training
    sample = torch.zeros(1, *input_shape, dtype=dtype, device=device_of(model))
    try:
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            outputs = model.eval()(sample)
    except Exception:  # perhaps one sample is too few for it; if it is broken, training will tell
        return
    finally:
        model.train(was_training)
    if not isinstance(outputs, Tensor):
        raise UsageError(
            f"--model {name} gives a {type(outputs).__name__}, and one tensor of the shape "
            f"(samples, {classes}) is needed: return that alone"
        )
    if outputs.shape != (1, classes):
        raise UsageError(
            f"--model {name} gives outputs of the shape {tuple(outputs.shape)} for one sample, "
            f"and {classes} classes need (1, {classes}): a function with a parameter `classes` "
            "is given their number"
        )
