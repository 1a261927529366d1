"""Reading idx files, the format of MNIST: arrays of bytes behind a header, often gzipped.

Two zero bytes, a type (8 for unsigned bytes, the only one read here), the number of dimensions,
each dimension as a big-endian 32-bit number, then the bytes.
"""

import gzip
import math
import os
import zlib
from io import BufferedIOBase
from pathlib import Path

import torch
from torch import Tensor

from phalanx.data.containers.memory import check_memory
from phalanx.errors import DataError
from phalanx.files import open_file

_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK = 1 << 20
#: A packed byte stands for no more.
_MOST_UNPACKED = 1032


def read_idx(path: Path, *, dimensions: int) -> Tensor:
    """The file's bytes as a uint8 tensor; whether it is gzipped shows in its first bytes."""
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if file.peek(2)[:2] != _GZIP_MAGIC:
                return _read(file, path, dimensions=dimensions, most=size)
            with gzip.open(file) as unpacked:
                return _read(unpacked, path, dimensions=dimensions, most=size * _MOST_UNPACKED)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: damaged gzip file: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def _read(file: BufferedIOBase, path: Path, *, dimensions: int, most: int) -> Tensor:
    """The bytes of a file that has at most so many; for a header of more nothing is read."""
    shape = _read_shape(file, path, dimensions=dimensions)
    claimed = math.prod(shape)
    told = f"too short: the header tells of {_sizes(shape)} = {claimed:,} bytes"
    if claimed > most - file.tell():
        at_most = "at most " if isinstance(file, gzip.GzipFile) else ""
        raise DataError(f"{path}: {told}, {at_most}{most - file.tell():,} are there")
    check_memory(claimed, where=str(path))
    content = _read_up_to(claimed, file)
    if len(content) < claimed:
        raise DataError(f"{path}: {told}, {len(content):,} are there")
    # Reading on also makes gzip verify its checksum.
    if file.read(1):
        raise DataError(f"{path}: bytes after the {_sizes(shape)} = {claimed:,} of the header")
    if not claimed:
        return torch.empty(shape, dtype=torch.uint8)
    return torch.frombuffer(content, dtype=torch.uint8).reshape(shape)


def _read_shape(file: BufferedIOBase, path: Path, *, dimensions: int) -> tuple[int, ...]:
    expected = bytes([0, 0, 8, dimensions])
    magic = file.read(4)
    if magic != expected:
        raise DataError(
            f"{path}: not an idx file of {dimensions}-dimensional bytes: it starts with "
            f"{magic.hex(' ') or 'nothing'}, not {expected.hex(' ')}"
        )
    header = file.read(4 * dimensions)
    if len(header) < 4 * dimensions:
        raise DataError(f"{path}: too short: ends inside the header")
    return tuple(
        int.from_bytes(header[start : start + 4], "big") for start in range(0, len(header), 4)
    )


def _read_up_to(count: int, file: BufferedIOBase) -> bytearray:
    """Read in chunks: a damaged header may claim more than memory holds."""
    content = bytearray()
    while len(content) < count:
        chunk = file.read(min(_CHUNK, count - len(content)))
        if not chunk:
            break
        content += chunk
    return content


def _sizes(shape: tuple[int, ...]) -> str:
    return " × ".join(str(size) for size in shape)
