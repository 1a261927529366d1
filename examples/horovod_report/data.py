"""What both programs train on: the handwritten digits that ship with Phalanx, 500 values each."""

import torch
import torch.nn.functional as F

import phalanx.data
from phalanx.data.split import Samples, Split

#: Pixels: 8×8 are enlarged, because the report's network takes 500 values.
ENLARGED = (20, 25)


def load_digits() -> tuple[Samples, Samples]:
    """1,438 samples to train on and 359 to test: rows of inputs from 0 to 1, and their digits."""
    digits = phalanx.data.load("digits")
    return _enlarged(digits.train), _enlarged(digits.test)


def _enlarged(split: Split) -> Samples:
    samples = split.take(torch.arange(len(split)))
    images = F.interpolate(samples.inputs, ENLARGED, mode="bilinear")
    return Samples(images.flatten(1), samples.targets)
