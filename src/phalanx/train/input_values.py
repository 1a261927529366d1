"""What a model's inputs are made of, for whoever uses it without Phalanx."""

from collections.abc import Mapping
from typing import Any

from phalanx.data.split import Split
from phalanx.data.transforms import Normalise


def input_values(split: Split) -> dict[str, Any]:
    """The factor of stored values, and what is then taken off and divided by, channel by channel.

    Values are as stored: bytes of images from 0 to 255. No mean and deviation means no such step.
    """
    values: dict[str, Any] = {"scale": split.scale}
    for transform in split.transforms:
        if isinstance(transform, Normalise):
            values["mean"] = transform.mean.tolist()
            values["deviation"] = transform.deviation.tolist()
    return values


def in_words(values: Mapping[str, Any]) -> str:
    """The same for people."""
    words = ["stored values"]
    if values["scale"] != 1:
        words.append(f"times {values['scale']:.6g}")
    if "mean" in values:
        for word, name in (("less", "mean"), ("over", "deviation")):
            words.append(f"{word} {', '.join(f'{one:.6g}' for one in values[name])}")
    return " ".join(words)
