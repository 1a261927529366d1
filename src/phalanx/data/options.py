"""What a user may say about data: each option's values, checked without torch.

Options of a data set go to its `load`; the steps apply to any data set, in the order listed.
"""

from collections.abc import Mapping
from typing import Any

from phalanx.errors import UsageError

#: What is done to samples when they are taken, in this order.
STEPS = ("resize", "pool", "normalise", "flip", "crop")
#: Those that make sense for images alone.
IMAGE_STEPS = ("resize", "pool", "flip", "crop")
#: Everything that some data set takes; the seed is that of the run.
OPTIONS = (
    *STEPS,
    *("test_split", "target", "drop", "skip_bad", "cache", "shape", "classes", "samples", "seed"),
)
#: The share of samples to test with, where a data set has no test part of its own.
TEST_SPLIT = 0.2

_LARGEST_SIDE = 1 << 16


def flag(name: str) -> str:
    """The option as it is spelt on the command line."""
    return "--" + name.replace("_", "-")


def parse_shape(text: str, *, option: str, dimensions: int | None = None) -> tuple[int, ...]:
    """Sizes such as 64x64, as many as there are to be, each 1 or more."""
    example = {2: "64x48 (height x width)"}.get(dimensions or 0, "3x32x32")
    try:
        sizes = tuple(int(size) for size in text.lower().replace("×", "x").split("x"))
    except ValueError:
        sizes = ()
    fits = dimensions is None or len(sizes) == dimensions
    if not sizes or not fits or not all(0 < size <= _LARGEST_SIDE for size in sizes):
        raise UsageError(f"{flag(option)} takes sizes such as {example}, not '{text}'")
    return sizes


def check_options(name: str, options: Mapping[str, Any], *, accepted: tuple[str, ...]) -> None:
    """Raise a UsageError for an option that this data set does not take, or its value."""
    for option in options:
        if option not in (*accepted, *STEPS, "seed"):
            raise UsageError(f"{flag(option)} is no option of data set {name}: leave it out")
    for option in ("resize", "pool"):
        if option in options:
            parse_shape(options[option], option=option, dimensions=2)
    if "shape" in options:
        parse_shape(options["shape"], option="shape")
    if not 0 <= options.get("test_split", 0) < 1:
        raise UsageError(f"--test-split must be from 0 to below 1, not {options['test_split']}")
    for option, least in {"crop": 1, "cache": 0, "classes": 2, "samples": 1}.items():
        if options.get(option, least) < least:
            raise UsageError(f"{flag(option)} must be {least} or more, not {options[option]}")


def transformed_shape(
    name: str, shape: tuple[int, ...], options: Mapping[str, Any]
) -> tuple[int, ...]:
    """What the steps make of samples of this shape; a UsageError for steps that do not fit it."""
    for option in IMAGE_STEPS:
        if options.get(option) and len(shape) != 3:
            sizes = "×".join(map(str, shape))
            raise UsageError(
                f"{flag(option)} is for images, of channels × height × width: "
                f"the samples of {name} are {sizes}"
            )
    if "resize" in options:
        shape = (shape[0], *parse_shape(options["resize"], option="resize", dimensions=2))
    if "pool" in options:
        pooled = parse_shape(options["pool"], option="pool", dimensions=2)
        if pooled[0] > shape[1] or pooled[1] > shape[2]:
            raise UsageError(
                f"--pool {options['pool']} makes images smaller, and those of {name} are "
                f"{shape[1]}×{shape[2]}: use --resize"
            )
        shape = (shape[0], *pooled)
    if options.get("crop", 0) > min(shape[1:], default=0):
        raise UsageError(
            f"--crop {options['crop']} moves images by more than the {min(shape[1:])} pixels that "
            f"those of {name} have"
        )
    return shape
