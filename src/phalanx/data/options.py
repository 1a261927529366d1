"""What a user may say about data: each option, declared and checked without torch.

Options of a data set go to its `load`; the steps apply to any data set, in the order listed.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from phalanx.data.tables.encoding import check_encoding
from phalanx.errors import UsageError
from phalanx.options import Option, check_values, names_of
from phalanx.wording import flag

_LARGEST_SIDE = 1 << 16
#: What a text can be made of.
CHARACTERS, BYTES = "characters", "bytes"


def parse_shape(text: str, *, option: str, dimensions: int | None = None) -> tuple[int, ...]:
    """Sizes such as 64x64, as many as there are to be, each 1 or more."""
    return _sizes(text, flag(option), dimensions=dimensions)


def _sizes(text: str, spelled: str, *, dimensions: int | None = None) -> tuple[int, ...]:
    example = {2: "64x48 (height x width)"}.get(dimensions or 0, "3x32x32")
    try:
        sizes = tuple(int(size) for size in text.lower().replace("×", "x").split("x"))
    except ValueError:
        sizes = ()
    fits = dimensions is None or len(sizes) == dimensions
    if not sizes or not fits or not all(0 < size <= _LARGEST_SIDE for size in sizes):
        raise UsageError(f"{spelled} takes sizes such as {example}, not '{text}'")
    return sizes


def _check_sizes(text: str, spelled: str, *, dimensions: int | None = None) -> None:
    _sizes(text, spelled, dimensions=dimensions)


def _check_share(value: float, spelled: str) -> None:
    if not 0 < value <= 1:
        raise UsageError(f"{spelled} must be above 0 and at most 1, not {value:g}")


_CHECK_SIDES = partial(_check_sizes, dimensions=2)

RESIZE = Option(
    "resize",
    str,
    "Size to bring images to, such as 64x48, height first",
    default_words="64x64 for images, as they are for others",
    rule=_CHECK_SIDES,
)
POOL = Option(
    "pool", str, "Size to average images down to, such as 20x20, area by area.", rule=_CHECK_SIDES
)
NORMALISE = Option(
    "normalise",
    bool,
    "Bring each channel or column to mean 0 and deviation 1, by training samples",
    default=False,
    default_words="by data set: `phalanx datasets`",
)
FLIP = Option("flip", bool, "Mirror images left to right at random, in training.", default=False)
FLIP_PROBABILITY = Option(
    "flip_probability", float, "How many of them, where not half of them.", rule=_check_share
)
CROP_WINDOW = Option(
    "crop_window",
    int,
    "Of every other image, in training, keep a window of N pixels and move it, as PyDTNN does.",
    at_least=1,
)
CROP_PROBABILITY = Option(
    "crop_probability", float, "How many images that is done to, if not half.", rule=_check_share
)
CROP = Option("crop", int, "Move images by up to N pixels at random, in training.", at_least=1)
TEST_DIR = Option(
    "test_dir", Path, "folder with the files to test with, if they are not with the others"
)
TEST_SPLIT = Option(
    "test_split",
    float,
    "share of the samples to test with where there is no test part; 0 tests on the training "
    "samples",
    default=0.2,
    at_least=0,
    below=1,
)
TARGET = Option(
    "target",
    str,
    "name or number of the column with the classes, labels or values, or of several",
    default_words="the last",
)
DROP = Option("drop", str, "columns to leave out, by name or number, separated by commas.")
MISSING = Option(
    "missing",
    str,
    "what stands in for missing values, by the training rows: for numbers their mean, median or "
    "most frequent one, for words the most frequent one; or category: a category of its own for "
    "words, and for numbers the mean and an input that says so",
    default="refuse",
    choices=("refuse", "mean", "median", "most-frequent", "category"),
)
MOST_CATEGORIES = Option(
    "most_categories",
    int,
    "how many different words a column may have, an input each",
    default_words="100, or half as many as rows if those are fewer",
    at_least=1,
)
ENCODING = Option(
    "encoding",
    str,
    "how text is encoded, such as cp1252, latin-1 or utf-16",
    default_words="what its byte order mark says, or utf-8",
    rule=check_encoding,
)
SKIP_BAD = Option(
    "skip_bad",
    bool,
    "leave out images and rows that cannot be read, rather than stop at the first.",
    default=False,
)
CACHE = Option(
    "cache", int, "MiB of decoded images that the ranks of a host keep", default=512, at_least=0
)
SHAPE = Option("shape", str, "the shape of a sample", default="3x32x32", rule=_check_sizes)
CLASSES = Option(
    "classes",
    int,
    "the number of classes, or of labels, or of values in a regression",
    default_words="10, and one value",
    at_least=2,
)
SAMPLES = Option("samples", int, "the number of training samples", default=50_000, at_least=1)
TOKENS = Option(
    "tokens",
    str,
    "what a text is made of; bytes take any file",
    default=CHARACTERS,
    choices=(CHARACTERS, BYTES),
)
CONTEXT_LENGTH = Option(
    "context_length", int, "tokens that a sample has, and a model sees", default=64, at_least=1
)
WINDOW_STEP = Option(
    "window_step",
    int,
    "tokens from the start of a sample to that of the next",
    default_words="as many as a sample has",
    at_least=1,
)

#: What is done to samples when they are taken, in this order.
STEPS = (*(RESIZE, POOL, NORMALISE, FLIP, FLIP_PROBABILITY, CROP_WINDOW, CROP_PROBABILITY, CROP),)
#: Those that make sense for images alone.
IMAGE_STEPS = (RESIZE, POOL, FLIP, CROP_WINDOW, CROP)
#: What says how often a step is taken.
OFTEN = {"flip_probability": "flip", "crop_probability": "crop_window"}
#: Everything that some data set takes, but for the seed, which is that of the run.
OPTIONS = (
    *(TEST_DIR, TEST_SPLIT, TARGET, DROP, MISSING, MOST_CATEGORIES, ENCODING, *STEPS),
    *(SKIP_BAD, CACHE, SHAPE, CLASSES, SAMPLES, TOKENS, CONTEXT_LENGTH, WINDOW_STEP),
)
#: What every data set may be given besides its options: the seed and the task of the run.
SEED, TASK = "seed", "task"


def check_options(name: str, options: Mapping[str, Any], *, accepted: tuple[Option, ...]) -> None:
    """Raise a UsageError for an option that this data set does not take, or its value."""
    takes = (*accepted, *STEPS)
    for option in options:
        if option not in (*names_of(takes), SEED, TASK):
            raise UsageError(f"{flag(option)} is no option of data set {name}: leave it out")
    check_values(takes, options, spell=flag)
    for often, step in OFTEN.items():
        if options.get(often) and not options.get(step):
            raise UsageError(f"{flag(often)} says how often: give {flag(step)}, too")


def transformed_shape(
    name: str, shape: tuple[int, ...], options: Mapping[str, Any]
) -> tuple[int, ...]:
    """What the steps make of samples of this shape; a UsageError for steps that do not fit it."""
    for option in names_of(IMAGE_STEPS):
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
