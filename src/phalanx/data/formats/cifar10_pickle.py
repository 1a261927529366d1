"""The pickles of CIFAR-10's Python version, read without running anything that they name.

A pickle can name any function to be called. Of all names only those are known here that an array
of bytes is made of, and each stands for a function of this file that does just that.
"""

import pickle
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np

from phalanx.data.arrays import Array
from phalanx.data.formats.cifar10_files import PIXELS
from phalanx.errors import DataError


def read_batch(path: Path) -> tuple[Array, Array]:
    """The pixels [n, 3072] and the labels [n] of one file."""
    try:
        with path.open("rb") as file:
            content = _ArraysOnly(file, encoding="bytes").load()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # a damaged pickle can fail in any way
        raise DataError(f"{path}: not a pickle of CIFAR-10: {error}") from error
    pixels, labels = (_value(content, name) for name in ("data", "labels"))
    if not (
        isinstance(pixels, np.ndarray)
        and pixels.dtype == np.uint8
        and pixels.ndim == 2
        and pixels.shape[1] == PIXELS
    ):
        raise DataError(f"{path}: 'data' is not an array of bytes [n, {PIXELS}]")
    if not (isinstance(labels, list) and all(type(label) is int for label in labels)):
        raise DataError(f"{path}: 'labels' is not a list of whole numbers")
    return pixels, np.array(labels, dtype=np.int64)


def _value(content: object, name: str) -> Any:
    if not isinstance(content, dict):
        return None
    return content.get(name.encode(), content.get(name))


def _reconstruct(kind: object, shape: object, code: object) -> Array:
    """What numpy pickles as the first step to an array: an empty one, which gets its state next."""
    if kind is not np.ndarray or shape != (0,) or code not in (b"b", "b"):
        raise pickle.UnpicklingError("an array in a form of its own")
    return np.ndarray.__new__(np.ndarray, (0,), "b")


def _from_buffer(buffer: object, dtype: object, shape: object, order: object) -> Array:
    if not isinstance(buffer, bytes | bytearray) or dtype != np.uint8 or order != "C":
        raise pickle.UnpicklingError("an array in a form of its own")
    return np.frombuffer(buffer, np.uint8).reshape(shape)


def _dtype(code: object, *_flags: object) -> np.dtype[Any]:
    if code not in (b"u1", "u1"):
        raise pickle.UnpicklingError(f"an array of {code!r}, not of bytes")
    return np.dtype(np.uint8)


def _encode(text: object, encoding: object) -> bytes:
    """How Python 3 writes bytes in the older forms of pickles."""
    if not isinstance(text, str) or encoding not in (b"latin1", "latin1"):
        raise pickle.UnpicklingError("text in another encoding than latin1")
    return text.encode("latin1")


_KNOWN: dict[tuple[str, str], object] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("_codecs", "encode"): _encode,
}


@final
class _ArraysOnly(pickle.Unpickler):
    def __init__(self, file: BinaryIO, *, encoding: str) -> None:
        super().__init__(file, encoding=encoding)

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        known = _KNOWN.get((module_name, global_name))
        if known is None:
            raise pickle.UnpicklingError(
                f"it names {module_name}.{global_name}, which is no part of an array of bytes"
            )
        return known
