"""Which inputs a model can be built for; every family refuses the others in the same words."""

import math

from phalanx.errors import UsageError

#: Images with a side shorter than this get a model's stem for small images.
LARGE = 64


def check_inputs(name: str, *, input_shape: tuple[int, ...], classes: int) -> None:
    """Accept inputs of any shape that hold a value, and 1 class or more."""
    if not input_shape or math.prod(input_shape) < 1 or classes < 1:
        raise UsageError(f"{name} cannot map inputs of shape {input_shape} to {classes} classes")


def check_images(
    name: str, *, input_shape: tuple[int, ...], classes: int, smallest: int = 1
) -> None:
    """Accept images with at least `smallest` pixels a side, and 1 class or more."""
    if len(input_shape) != 3:
        raise UsageError(
            f"{name} needs images of shape (channels, height, width), got {input_shape}"
        )
    if input_shape[0] < 1 or min(input_shape[1:]) < smallest:
        raise UsageError(
            f"{name} needs images of {smallest}×{smallest} pixels or more, got {input_shape}; "
            "`phalanx models` tells what others need"
        )
    if classes < 1:
        raise UsageError(f"{name} needs 1 class or more, got {classes}")


def is_large(input_shape: tuple[int, ...]) -> bool:
    """Whether images are large enough for a stem that halves them twice, as for ImageNet."""
    return min(input_shape[1:]) >= LARGE
