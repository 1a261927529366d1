"""Data sets that workers read in these tests. Workers import this file, and so it is small."""

import os
import random
import signal
import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset


class Drawn(Dataset[tuple[Tensor, int]]):
    """Samples that draw from all generators, as augmentation does."""

    def __init__(self, count: int = 22) -> None:
        self._images = torch.arange(count * 12.0).reshape(count, 12).sin()

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        moved = torch.rand(1) + float(np.random.rand()) + random.random()
        return self._images[index] + moved / 4, index % 3


class UnlikeOthersError(Exception):
    """Pickle makes it of one argument again, and it needs two."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class Behaving(Dataset[dict[str, Any]]):
    """What a sample does depends on its index."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index == 7:
            raise ValueError("the file of a sample is damaged")
        if index == 8:
            raise UnlikeOthersError("one", "another")
        if index == 10:
            return {"image": torch.zeros(index)}  # of another length: cannot be collated
        return {"image": torch.full((4,), float(index)), **facts()}


def facts() -> dict[str, int]:
    """Of the process that reads."""
    of_mpi = ("OMPI_COMM_", "PMIX_", "PMI_")
    return {
        "process": os.getpid(),
        "threads": torch.get_num_threads(),
        "mpi": int("mpi4py" in sys.modules),
        "variables": sum(name.startswith(of_mpi) for name in os.environ),
        "hears": int(signal.getsignal(signal.SIGINT) is not signal.SIG_IGN),
    }
