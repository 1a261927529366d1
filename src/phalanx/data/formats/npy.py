"""The header of a .npy file, which says where in the file which numbers are. Without torch."""

import math
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from phalanx.data.containers.memory import check_memory
from phalanx.errors import DataError
from phalanx.files import open_file

#: What torch takes: more are none of a sample's, but of a damaged header.
_MOST_DIMENSIONS = 32


@dataclass(frozen=True)
class NpyHeader:
    """An array in a file: its shape and type, and the byte that its numbers start at."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran_order: bool
    start: int

    @property
    def row_bytes(self) -> int:
        """The bytes of one sample."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def bytes(self) -> int:
        """The bytes of all its numbers."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(path: Path) -> NpyHeader:
    """The header; a DataError for a file that is none, or holds less than the header tells."""
    try:
        with open_file(path) as file:
            size = file.seek(0, 2)
            file.seek(0)
            return parse_header(file, size=size, where=str(path))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def read_npy(path: Path) -> "np.ndarray[Any, Any]":
    """All of an array; a DataError if it does not fit in memory."""
    check_memory(read_header(path).bytes, where=str(path))
    try:
        with open_file(path) as file:
            array: np.ndarray[Any, Any] = npy_format.read_array(file, allow_pickle=False)
            return array
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def parse_header(file: IO[bytes], *, size: int, where: str) -> NpyHeader:
    """The header that so many bytes begin with; what reading raises is the caller's to see to."""
    try:
        version = npy_format.read_magic(file)
        # Version 3 differs in the encoding of field names, which plain numbers have none of.
        read = (
            npy_format.read_array_header_1_0
            if version == (1, 0)
            else npy_format.read_array_header_2_0
        )
        shape, fortran_order, dtype = read(file)
        header = NpyHeader(tuple(map(int, shape)), dtype, fortran_order, file.tell())
    except (OSError, zlib.error, zipfile.BadZipFile):
        raise
    except Exception as error:  # numpy parses the header as Python, with whatever that raises
        raise DataError(f"{where}: not a .npy file: {error}") from error
    sizes = " × ".join(map(str, header.shape))
    if min(shape, default=1) < 0 or len(shape) > _MOST_DIMENSIONS:
        raise DataError(f"{where}: not a .npy file: its header tells of {sizes} numbers")
    if dtype.hasobject:
        raise DataError(
            f"{where}: holds Python objects, which are not read: save numbers, and words "
            "by astype(str)"
        )
    if size < header.start + header.bytes:
        raise DataError(
            f"{where}: too short: {sizes} of {dtype} are {header.start + header.bytes:,} bytes, "
            f"{size:,} are there"
        )
    return header
