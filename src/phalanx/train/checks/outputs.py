"""Whether a user's own model answers in the form that losses and predictions need."""

import torch
from torch import Tensor, nn

from phalanx.errors import UsageError
from phalanx.models.in_parts import device_of
from phalanx.models.modes import kept_modes
from phalanx.wording import a


def check_outputs(
    model: nn.Module,
    name: str,
    *,
    input_shape: tuple[int, ...],
    classes: int,
    dtype: torch.dtype,
    answers: tuple[int, ...] = (),
) -> None:
    """Refuse a model that does not give a number for every class, for each sample.

    A sample may want several `answers`, one for each of its tokens.
    """
    sample = torch.zeros(1, *input_shape, dtype=dtype, device=device_of(model))
    try:
        with kept_modes(model), torch.random.fork_rng(devices=[]), torch.inference_mode():
            outputs = model.eval()(sample)
    except Exception:  # perhaps one sample is too few for it; if it is broken, training will tell
        return
    wanted = (1, classes, *answers)
    if not isinstance(outputs, Tensor):
        raise UsageError(
            f"--model {name} gives {a(outputs)}, and one tensor of the shape "
            f"(samples, {', '.join(map(str, wanted[1:]))}) is needed: return that alone"
        )
    if outputs.shape != wanted:
        raise UsageError(
            f"--model {name} gives outputs of the shape {tuple(outputs.shape)} for one sample, "
            f"and {classes} classes need {wanted}: a function with a parameter `classes` "
            "is given their number"
        )
