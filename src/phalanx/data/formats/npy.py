"""The header of a .npy file, which says where in the file which numbers are. Without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from phalanx.errors import DataError


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
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize


def read_header(path: Path) -> NpyHeader:
    """The header; a DataError for a file that is none, or holds less than the header tells."""
    try:
        with path.open("rb") as file:
            version = npy_format.read_magic(file)
            # Version 3 differs in the encoding of field names, which plain numbers have none of.
            read = (
                npy_format.read_array_header_1_0
                if version == (1, 0)
                else npy_format.read_array_header_2_0
            )
            shape, fortran_order, dtype = read(file)
            header = NpyHeader(shape, dtype, fortran_order, file.tell())
            size = file.seek(0, 2)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # numpy parses the header as Python, with whatever that raises
        raise DataError(f"{path}: not a .npy file: {error}") from error
    claimed = header.start + int(np.prod([1, *shape], dtype=np.int64)) * dtype.itemsize
    if not dtype.hasobject and size < claimed:
        sizes = " × ".join(map(str, shape))
        raise DataError(
            f"{path}: too short: {sizes} of {dtype} are {claimed:,} bytes, {size:,} are there"
        )
    return header
