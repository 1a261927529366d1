"""The arrays in a .npz file, each looked at before memory is taken for it. Without torch.

A small file may unpack to more than any memory holds: a header says how much that is.
"""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from phalanx.data.containers.memory import check_memory
from phalanx.data.formats.npy import parse_header
from phalanx.errors import DataError
from phalanx.files import open_file

_SUFFIX = ".npy"
#: What numpy writes; others unpack to thousands of times their size.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1


def array_names(path: Path) -> list[str]:
    """What the arrays of a file are called."""
    with _opened(path, what="not a readable .npz file") as archive:
        return [name.removesuffix(_SUFFIX) for name in archive.namelist()]


def read_array(path: Path, name: str) -> "np.ndarray[Any, Any]":
    """An array of one dimension at least; a DataError names it if it cannot be read."""
    where = f"{path}: {name}"
    with _opened(path, what=f"{name} cannot be read") as archive:
        there = archive.namelist()
        member = archive.getinfo(name if name in there else name + _SUFFIX)
        if member.compress_type not in _METHODS or member.flag_bits & _ENCRYPTED:
            raise DataError(f"{where} is packed in a way that numpy does not: save it with numpy")
        with archive.open(member) as file:
            header = parse_header(file, size=member.file_size, where=where)
        if header.start + header.bytes != member.file_size:
            raise DataError(f"{where}: more bytes than its header tells of: it is damaged")
        check_memory(header.bytes, where=where)
        with archive.open(member) as file:
            return np.atleast_1d(_read(file))


def _read(file: IO[bytes]) -> "np.ndarray[Any, Any]":
    array: np.ndarray[Any, Any] = npy_format.read_array(file, allow_pickle=False)
    file.read(1)  # which verifies the checksum: that comes with the end
    return array


@contextmanager
def _opened(path: Path, *, what: str) -> Iterator[zipfile.ZipFile]:
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            yield archive
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{path}: {what}: {error.strerror or error}") from error
    except Exception as error:  # a damaged archive can fail in any way
        raise DataError(f"{path}: {what}: {error or type(error).__name__}") from error
