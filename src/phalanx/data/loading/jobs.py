"""What a rank asks its workers for, and what they answer, as bodies of messages."""

import pickle
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from phalanx.data.loading.memory import Put
from phalanx.data.loading.packing import Span
from phalanx.data.transforms import Draw


class Source(NamedTuple):
    """A data set and what collates its samples, in memory that comes along."""

    number: int
    spans: list[Span]


class Job(NamedTuple):
    """Samples to read."""

    number: int
    source: int
    indices: "np.ndarray[Any, np.dtype[np.int64]]"
    draw: Draw
    #: Slots whose batches the rank has dropped since.
    freed: list[int]

    def tensor(self) -> Tensor:
        """The indices."""
        return torch.from_numpy(self.indices)


class Answer(NamedTuple):
    """A batch."""

    job: int
    text: bytes
    put: Put


class Failure(NamedTuple):
    """Why there is none."""

    job: int
    #: The error, by cloudpickle.
    text: bytes


def as_body(value: Source | Job | Answer | Failure) -> bytes:
    """As bytes, for this rank's own workers and from them."""
    return pickle.dumps(value, protocol=5)


def from_body(body: bytes | bytearray) -> Any:
    """What it was."""
    return pickle.loads(body)
