"""Digits of 20×20 pixels as a MATLAB file, made of the embedded ones, when there is no better."""

from pathlib import Path

import scipy.io
import torch
import torch.nn.functional as F

from phalanx import data


def write_digits(path: Path, *, count: int | None = None) -> None:
    """Write X, a digit a row with its columns one after the other, and y from 1, 10 for the 0."""
    split = data.load("digits").train
    samples = split.take(torch.arange(len(split) if count is None else count))
    enlarged = F.interpolate(samples.inputs, (20, 20), mode="bilinear")
    rows = enlarged.transpose(2, 3).flatten(1).double().numpy()
    labels = samples.targets.where(samples.targets > 0, torch.tensor(10))
    scipy.io.savemat(path, {"X": rows, "y": labels[:, None].numpy()})
