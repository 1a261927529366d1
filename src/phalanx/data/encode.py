"""Columns of a table as columns of samples, in the smallest type that holds them exactly."""

from collections.abc import Sequence

import torch
from torch import Tensor

_SMALLER = (torch.uint8, torch.float32)


def encode_numbers(numbers: Sequence[float]) -> Tensor:
    """Numbers as they are, [rows, 1]."""
    exact = torch.tensor(numbers, dtype=torch.float64)[:, None]
    for dtype in _SMALLER:
        smaller = exact.to(dtype)
        if torch.equal(smaller.to(torch.float64), exact):
            return smaller
    return exact


def encode_categories(chosen: Sequence[int], *, count: int) -> Tensor:
    """For each row a 1 in the column of the category that it has, [rows, count]."""
    columns = torch.zeros(len(chosen), count, dtype=torch.uint8)
    return columns.scatter_(1, torch.tensor(chosen)[:, None], 1)
