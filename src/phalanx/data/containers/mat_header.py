"""What the variables of a MATLAB file are, told from the file alone: nothing large is read.

A file of version 5 is a row of elements, each with its type and its length before it; a variable is
one of them, packed or not. One of version 4 is a row of matrices, each behind five numbers. Those
of version 7.3 are in another format altogether, HDF5. Without torch.
"""

import math
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_COMPLEX = 0x0800
#: Enough for all that stands before the numbers of a variable.
_BEGINNING = 4096
#: Longer names are none of MATLAB's, and further dimensions none of numpy's.
_MOST_LETTERS = 64
_MOST_DIMENSIONS = 32
_CLASSES = {1: "a cell array", 2: "a struct", 3: "an object", 4: "text", 5: "a sparse matrix"}
_NUMBERS = range(6, 16)
#: Bytes of a number, by the type of an element, or by the digit that stands for it in version 4.
_WIDTHS = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8}
_WIDTHS_4 = (8, 4, 4, 2, 2, 1)


class NotMatlabError(ValueError):
    """What is wrong with a file that cannot be one of MATLAB's."""


@dataclass(frozen=True)
class Variable:
    """A variable; if it has no numbers that can be read, `obstacle` says what it is instead."""

    name: str
    #: The most bytes that its numbers take in memory.
    bytes: int = 0
    obstacle: str = ""


def variables(file: IO[bytes]) -> list[Variable]:
    """All variables of a file, in their order; NotMatlabError if it cannot be read as one."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    start = file.read(_HEADER)
    if len(start) >= 4 and 0 in start[:4]:
        return list(_of_version_4(file, size))
    if len(start) < _HEADER or start[126:128] not in (b"IM", b"MI"):
        raise NotMatlabError("it does not begin as one")
    order = "<" if start[126:128] == b"IM" else ">"
    if struct.unpack(f"{order}H", start[124:126])[0] >> 8 != 1:
        raise NotMatlabError("it is of version 7.3: save it with -v7")
    return list(_of_version_5(file, size, order))


def _of_version_5(file: IO[bytes], size: int, order: str) -> Iterator[Variable]:
    place = _HEADER
    while place < size:
        file.seek(place)
        kind, length = _numbers(file.read(8), f"{order}II")
        place += 8 + length
        if length == 0 or place > size:
            raise NotMatlabError("it is cut off")
        start = file.read(min(length, _BEGINNING))
        if kind == _COMPRESSED:
            start = zlib.decompressobj().decompress(start, _BEGINNING)
            kind, length = _numbers(start[:8], f"{order}II")
            start = start[8:]
        if kind != _MATRIX:
            raise NotMatlabError(f"an element of type {kind}, where variables are {_MATRIX}")
        yield _variable(start, order)


def _variable(start: bytes, order: str) -> Variable:
    """A variable that begins with these bytes: flags, sizes, name, and the tag of its numbers."""
    (flags,) = _numbers(start[8:12], f"{order}I")
    _, sizes, place = _element(start, 16, order, most=4 * _MOST_DIMENSIONS)
    _, letters, place = _element(start, place, order, most=_MOST_LETTERS)
    name = letters.decode("latin1")
    shape = struct.unpack(f"{order}{len(sizes) // 4}i", sizes[: len(sizes) // 4 * 4])
    kind = flags & 0xFF
    if kind not in _NUMBERS or flags & _COMPLEX:
        complex_numbers = kind in _NUMBERS
        other = "of complex numbers" if complex_numbers else _CLASSES.get(kind, "of another kind")
        return Variable(name, obstacle=other)
    if min(shape, default=-1) < 0:
        raise NotMatlabError(f"{name} of {shape} numbers")
    count = math.prod(shape)
    first, length = _numbers(start[place : place + 8], f"{order}II")
    if first >> 16:  # a short element, which has its length beside its type
        first, length = first & 0xFFFF, first >> 16
    if first not in _WIDTHS or length != count * _WIDTHS[first]:
        raise NotMatlabError(f"{name} of {shape} numbers has {length:,} bytes of them")
    return Variable(name, count * 8)


def _element(start: bytes, place: int, order: str, *, most: int) -> tuple[int, bytes, int]:
    """The type and the content of an element at a place, and the place of the next one."""
    kind, length = _numbers(start[place : place + 8], f"{order}II")
    if kind >> 16:
        kind, length = kind & 0xFFFF, kind >> 16
        content, after = start[place + 4 : place + 4 + length], place + 8
    else:
        content = start[place + 8 : place + 8 + length]
        after = place + 8 + (length + 7) // 8 * 8
    if length > most or len(content) < length:
        raise NotMatlabError("it is cut off, or has longer names or more sizes than there are")
    return kind, content, after


def _of_version_4(file: IO[bytes], size: int) -> Iterator[Variable]:
    place = 0
    while place < size:
        file.seek(place)
        start = file.read(20)
        order = "<" if 0 <= _numbers(start[:4], "<i")[0] <= 5000 else ">"
        code, rows, columns, imaginary, letters = _numbers(start, f"{order}5i")
        kind, width = code % 10, code // 10 % 10
        known = 0 <= code <= 5000 and kind <= 2 and width < len(_WIDTHS_4)
        if not known or min(rows, columns) < 0 or not 0 < letters <= _MOST_LETTERS:
            raise NotMatlabError("it does not begin as one")
        name = file.read(letters).split(b"\0")[0].decode("latin1")
        count = rows * columns * (2 if imaginary else 1)
        place += 20 + letters + count * _WIDTHS_4[width]
        if place > size:
            raise NotMatlabError("it is cut off")
        obstacle = "" if kind == 0 and not imaginary else "of another kind"
        yield Variable(name, count * 8, obstacle)


def _numbers(content: bytes, form: str) -> tuple[int, ...]:
    if len(content) != struct.calcsize(form):
        raise NotMatlabError("it is cut off")
    return struct.unpack(form, content)
