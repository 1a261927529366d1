"""What a model's inputs are made of: for Phalanx later on, and for whoever does without it."""

from collections.abc import Mapping
from typing import Any

import torch

from phalanx.data.split import Split
from phalanx.data.tables.form import TableForm
from phalanx.data.transforms import Crop, Flip, Normalise, Pool, Resize

#: Steps that are written down, or are for training alone.
_KNOWN = (Resize, Pool, Normalise, Flip, Crop)
#: So many columns of a table are told to people.
_TOLD = 20


def input_values(
    split: Split,
    *,
    stored_shape: tuple[int, ...] | None = None,
    options: Mapping[str, Any] | None = None,
    table: TableForm | None = None,
) -> dict[str, Any]:
    """The shape of a stored sample, and the steps from there to what the model sees, in order.

    It is resized and pooled, if the options say so, times a factor, less a mean and over a
    deviation, channel by channel. Bytes of images are from 0 to 255. What is not there is no step.
    A table's values are those of its columns, a column of categories being one for each, 1 or 0,
    and a number that may be missing being followed by a 1 or 0 for that. Steps of a user's own are
    named, but cannot be written down.
    """
    shape = split.stored_shape if stored_shape is None else stored_shape
    values: dict[str, Any] = {"shape": list(shape), "scale": split.scale}
    values |= {name: one for name, one in (options or {}).items() if name in ("resize", "pool")}
    steps = [transform for transform in split.transforms if isinstance(transform, Normalise)]
    if steps:
        mean, deviation = steps[0].mean, steps[0].deviation
        for step in steps[1:]:  # one that --normalise adds to that of the data set
            mean, deviation = mean + step.mean * deviation, deviation * step.deviation
        values |= {"mean": mean.tolist(), "deviation": deviation.tolist()}
        precise = any(step.precision == torch.float64 for step in steps)
        values["precision"] = "float64" if precise else "float32"
    own = [type(step).__name__ for step in split.transforms if not isinstance(step, _KNOWN)]
    if own:
        values["own_steps"] = own
    if table is not None:
        values["table"] = table.for_json()
    return values


def in_words(values: Mapping[str, Any]) -> str:
    """The same for people."""
    words = ["stored values"]
    words += [
        f"{word} to {values[name]}"
        for word, name in (("resized", "resize"), ("pooled", "pool"))
        if name in values
    ]
    if values.get("scale") not in (None, 1):
        words.append(f"times {values['scale']:.6g}")
    if "mean" in values:
        for word, name in (("less", "mean"), ("over", "deviation")):
            words.append(f"{word} {', '.join(f'{one:.6g}' for one in values[name])}")
    if "own_steps" in values:
        words.append(f"after steps of your own ({', '.join(values['own_steps'])})")
    told = " ".join(words)
    return f"{told}; columns: {_columns(values['table']['columns'])}" if "table" in values else told


def _columns(columns: list[Mapping[str, Any]]) -> str:
    words = [_column(one) for one in columns[:_TOLD]]
    more = len(columns) - _TOLD
    return ", ".join(words) + (f" and {more} more" if more > 0 else "")


def _column(one: Mapping[str, Any]) -> str:
    """A column, the values that are an input each, and what stands in for missing ones."""
    told = str(one["name"])
    if "categories" in one:
        told += f" = {' | '.join(name or '(missing)' for name in one['categories'])}"
    if one.get("fill"):
        told += f" ({one['fill']} if missing)"
    return f"{told}, whether it is missing" if one.get("marks_missing") else told
