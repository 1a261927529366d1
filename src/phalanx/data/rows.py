"""Samples of equal size in files, read when they are needed.

Read, not mapped: mapped pages count as a process's own memory, which would grow to the size of the
file, and a file that is cut short meanwhile would kill the process instead of raising an error.
"""

import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, final

import numpy as np
from torch import Tensor

from phalanx.data.arrays import Array, as_tensor, is_finite
from phalanx.data.source import Source
from phalanx.errors import DataError
from phalanx.files import open_file


@dataclass(frozen=True)
class RowFile:
    """A file with `count` rows: the first sample at byte `start`, the others `stride` bytes on."""

    path: Path
    count: int
    start: int
    stride: int


@final
class Rows(Source):
    """The rows of some files, one after the other."""

    def __init__(
        self, files: Sequence[RowFile], *, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.shape = shape
        self._dtype = dtype
        self._bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self._files = tuple(files)
        self._ends = list(accumulate(file.count for file in files))
        self._descriptors = [_open(file.path) for file in files]

    def __del__(self) -> None:
        for descriptor in getattr(self, "_descriptors", ()):
            os.close(descriptor)

    def __len__(self) -> int:
        return self._ends[-1]

    def take(self, indices: Tensor) -> Tensor:
        taken = np.empty((len(indices), *self.shape), self._dtype)
        into = taken.reshape(-1).view(np.uint8).data
        wanted = indices.tolist()
        at = 0
        while at < len(wanted):
            run = self._run(wanted, at)
            self._read(wanted[at], into[at * self._bytes : (at + run) * self._bytes])
            at += run
        self._check_finite(taken, wanted)
        return as_tensor(taken)

    def _check_finite(self, taken: Array, wanted: list[int]) -> None:
        """Raise for a value that is no number: looking now saves reading all of a file before."""
        if self._dtype.kind != "f" or (finite := is_finite(taken)).all():
            return
        at = int(np.argwhere(~finite)[0][0])
        value = taken[at][~finite[at]].flat[0]
        number, row = self._place(wanted[at])
        path = self._files[number].path
        raise DataError(f"{path}: value {value} in sample {row}; only finite numbers will do")

    def _place(self, index: int) -> tuple[int, int]:
        """The number of the file that a sample is in, and its row there."""
        number = bisect_right(self._ends, index)
        return number, index - (self._ends[number] - self._files[number].count)

    def _run(self, wanted: list[int], at: int) -> int:
        """How many of the indices from here on lie side by side in one file."""
        number = bisect_right(self._ends, wanted[at])
        if self._files[number].stride != self._bytes:
            return 1
        run = 1
        while (
            at + run < len(wanted)
            and wanted[at + run] == wanted[at] + run
            and wanted[at + run] < self._ends[number]
        ):
            run += 1
        return run

    def _read(self, index: int, into: memoryview) -> None:
        number, row = self._place(index)
        file = self._files[number]
        place = file.start + row * file.stride
        done = 0
        while done < len(into):
            try:
                count = os.preadv(self._descriptors[number], [into[done:]], place + done)
            except OSError as error:
                raise DataError(f"{file.path}: cannot be read: {error.strerror}") from error
            if count == 0:
                sample = row + done // self._bytes
                raise DataError(f"{file.path}: ends inside sample {sample}: it was longer before")
            done += count


def _open(path: Path) -> int:
    try:
        with open_file(path) as file:
            return os.dup(file.fileno())
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
