"""The pickles of CIFAR-10's Python version, read without running anything that they name.

Of all names only those are known here that an array of bytes is made of, and each stands for a
function of this file. An array is made of nothing but bytes, and of a shape that fits them.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from phalanx.data.arrays import Array
from phalanx.data.containers.pickle_steps import Made, Named, RefusedError, run_steps
from phalanx.data.formats.cifar10_files import PIXELS
from phalanx.errors import DataError
from phalanx.files import open_file

#: A batch of CIFAR-10 has 31 MB.
_MOST_BYTES = 256 << 20


def read_batch(path: Path) -> tuple[Array, Array]:
    """The pixels [n, 3072] and the labels [n] of one file."""
    try:
        with open_file(path) as file:
            program = file.read(_MOST_BYTES + 1)
        if len(program) > _MOST_BYTES:
            raise DataError(f"{path}: more than {_MOST_BYTES >> 20} MiB, where a batch has 31 MB")
        content = run_steps(program, _KNOWN)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise DataError(f"{path}: not a pickle of CIFAR-10: {error}") from error
    pixels, labels = (_value(content, name) for name in ("data", "labels"))
    if not (isinstance(pixels, _Array) and len(pixels.shape) == 2 and pixels.shape[1] == PIXELS):
        raise DataError(f"{path}: 'data' is not an array of bytes [n, {PIXELS}]")
    if not (isinstance(labels, list) and all(map(_is_label, labels))):
        raise DataError(f"{path}: 'labels' is not a list of whole numbers")
    return pixels.array(), np.array(labels, dtype=np.int64)


def _value(content: object, name: str) -> object:
    if not isinstance(content, dict):
        return None
    return content.get(name.encode(), content.get(name))


def _is_label(value: object) -> bool:
    return type(value) is int and abs(value) < 1 << 31


@final
class _Bytes(Made):
    """numpy's type of bytes."""

    def build(self, state: object) -> None:
        """Bytes have no order and no fields: all that numpy writes here is how it has none."""


@final
class _Array(Made):
    """An array of bytes: numpy writes down an empty one first, and then what is in it."""

    shape: Sequence[int] = (0,)
    _content: bytes = b""
    _order: Any = "C"

    def build(self, state: object) -> None:
        """The state that numpy writes: a version, the shape, the type, the order and the bytes."""
        if not isinstance(state, tuple) or len(state) != 5 or state[0] != 1:
            raise RefusedError(_OWN_FORM)
        _, shape, kind, by_columns, content = state
        self.fill(content, kind, shape, "F" if by_columns is True else "C")

    def fill(self, content: object, kind: object, shape: object, order: object) -> None:
        """Take bytes, if they are as many as the shape has room for."""
        if not isinstance(content, bytes) or not isinstance(kind, _Bytes):
            raise RefusedError(_OWN_FORM)
        if not isinstance(shape, tuple) or not all(type(side) is int for side in shape):
            raise RefusedError(_OWN_FORM)
        if min(shape, default=0) < 0 or math.prod(shape) != len(content):
            raise RefusedError(f"an array of other sizes than its {len(content):,} bytes have")
        if order not in ("C", "F"):
            raise RefusedError(_OWN_FORM)
        self.shape, self._content, self._order = shape, content, order

    def array(self) -> Array:
        """The array itself."""
        return np.frombuffer(self._content, np.uint8).reshape(self.shape, order=self._order)


_OWN_FORM = "an array in a form of its own"


def _reconstruct(kind: object, shape: object, code: object) -> _Array:
    """What numpy pickles as the first step to an array: an empty one, which gets its state next."""
    if not isinstance(kind, Named) or kind.name != "ndarray" or code not in (b"b", "b"):
        raise RefusedError(_OWN_FORM)
    return _Array()


def _from_buffer(content: object, kind: object, shape: object, order: object) -> _Array:
    array = _Array()
    array.fill(content, kind, shape, order)
    return array


def _dtype(code: object, *_flags: object) -> _Bytes:
    if code not in (b"u1", "u1"):
        told = repr(code[:20]) if isinstance(code, bytes | str) else "something else"
        raise RefusedError(f"an array of {told}, not of bytes")
    return _Bytes()


def _encode(text: object, encoding: object) -> bytes:
    """How Python 3 writes bytes in the older forms of pickles."""
    if not isinstance(text, str) or encoding not in (b"latin1", "latin1"):
        raise RefusedError("text in another encoding than latin1")
    return text.encode("latin1")


_KNOWN = {
    ("numpy", "ndarray"): Named("ndarray"),
    ("numpy", "dtype"): Named("dtype", _dtype),
    ("numpy.core.multiarray", "_reconstruct"): Named("_reconstruct", _reconstruct),
    ("numpy._core.multiarray", "_reconstruct"): Named("_reconstruct", _reconstruct),
    ("numpy.core.numeric", "_frombuffer"): Named("_frombuffer", _from_buffer),
    ("numpy._core.numeric", "_frombuffer"): Named("_frombuffer", _from_buffer),
    ("_codecs", "encode"): Named("encode", _encode),
}
