"""Random numbers of a user's own samples (augmentation): by seed, epoch and sample, never a rank.

A data set draws from torch's, NumPy's or Python's global generators, whichever its author likes.
All three are set before each sample, and put back behind the last.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from phalanx.data.transforms import Draw

_OWN = (5,)


@contextmanager
def kept_generators() -> Iterator[None]:
    """Whatever is drawn meanwhile, the process goes on with the random numbers that it had."""
    torchs, numpys, pythons = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(torchs)
        np.random.set_state(numpys)
        random.setstate(pythons)


def sample_seeds(draw: Draw, indices: Tensor) -> list[int]:
    """A number for each sample, for `seed_sample`."""
    numbers: list[int] = draw.bits(indices, purpose=_OWN).tolist()
    return numbers


def seed_sample(number: int) -> None:
    """Set all generators for one sample."""
    torch.default_generator.manual_seed(number)
    np.random.seed(number & 0xFFFFFFFF)
    random.seed(number)
