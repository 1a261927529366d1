"""Files of tensors, as safetensors has them, written in pieces and with a checksum.

Eight bytes say how long the header is, which is JSON: for each tensor its dtype, its shape and
where its bytes are. They follow without gaps, those of the widest dtype first, so that each is
aligned. Written here, and not by the package, so that the checksum is taken on the way and the
training can go on between two pieces; any reader of safetensors reads them.
"""

import json
import os
from collections.abc import Callable, Collection, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from xxhash import xxh3_128

from phalanx.checkpoints.new_file import NewFile, view_of
from phalanx.documents import parse_json
from phalanx.errors import UsageError
from phalanx.files import open_file
from phalanx.pulse import pulse

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "C64": torch.complex64,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
#: A name that the format uses itself.
_RESERVED = "__metadata__"
_PIECE = 1 << 20
_MOST_HEADER = (64 << 20) - 1


class Sum(NamedTuple):
    """How many bytes a file has, and their XXH3 in hexadecimal.

    That finds damage, not forgery, as nobody keeps a secret here; and it takes a sixteenth of the
    time that SHA-256 takes from the cores that train.
    """

    size: int
    xxh128: str


def check_tensor(name: str, tensor: Tensor) -> None:
    """Raise for what the format cannot hold."""
    if tensor.dtype not in _NAMES or tensor.layout != torch.strided or tensor.is_quantized:
        raise UsageError(
            f"'{name}' is a tensor of {tensor.dtype}, {tensor.layout}, which a checkpoint cannot "
            f"hold: dense ones of {', '.join(str(one)[6:] for one in _NAMES)} it can"
        )
    if name == _RESERVED or not name.isprintable():
        raise UsageError(f"a tensor cannot be named {name!r} in a checkpoint")


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], *, in_rows: Collection[str] = ()
) -> Sum:
    """Write a new file, and have it on the disk when this returns.

    Of those that are `in_rows` the file has the elements in a row, whatever their shape is.
    """
    names = sorted(tensors, key=lambda name: -tensors[name].element_size())
    digest, size = xxh3_128(), 0
    with NewFile(path) as file:
        contents = (_content(tensors[name]) for name in names)
        for content in chain([_header(names, tensors, in_rows)], contents):
            for start in range(0, len(content), _PIECE):
                piece = content[start : start + _PIECE]
                digest.update(view_of(piece))
                file.write(piece)  # in pieces, so that what was hashed is still in the cache
                pulse.beats += 1
            size += len(content)
        file.finish()
    return Sum(size, digest.hexdigest())


def write_one_by_one(
    path: Path, forms: Mapping[str, Tensor], whole: Callable[[str], Tensor]
) -> None:
    """Write tensors that look like these to a file, asking for one of them at a time, in order."""
    with path.open("wb") as file:
        file.write(view_of(_header([*forms], forms, ())))
        for name in forms:
            file.write(view_of(_content(whole(name))))
            pulse.beats += 1


def _header(names: list[str], tensors: Mapping[str, Tensor], in_rows: Collection[str]) -> Tensor:
    entries, start = {}, 0
    for name in names:
        tensor = tensors[name]
        end = start + tensor.numel() * tensor.element_size()
        shape = [tensor.numel()] if name in in_rows else list(tensor.shape)
        entries[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": shape,
            "data_offsets": [start, end],
        }
        start = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return torch.frombuffer(bytearray(len(text).to_bytes(8, "little") + text), dtype=torch.uint8)


def _content(tensor: Tensor) -> Tensor:
    dense = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return dense.reshape(-1).view(torch.uint8)


def file_sum(path: Path) -> Sum:
    """The sum of a file that is there, without having all of it in memory."""
    digest, size = xxh3_128(), 0
    with open_file(path) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            size += len(piece)
    return Sum(size, digest.hexdigest())


class Entry(NamedTuple):
    """A tensor in a file."""

    dtype: torch.dtype
    shape: tuple[int, ...]


def read_header(path: Path) -> dict[str, Entry]:
    """The tensors in a file, in the order of their bytes.

    A ValueError if its header does not account for every byte: what it claims is there, then.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(size - 8, _MOST_HEADER):
            raise ValueError("the length of its header is impossible")
        found = parse_json(file.read(length).decode())
    if not isinstance(found, dict):
        raise ValueError("its header is not a JSON object")
    places = sorted((_placed(name, one) for name, one in found.items()), key=lambda one: one[:2])
    place = 0
    for start, end, name, _ in places:
        if start != place:
            raise ValueError(f"the bytes of {name!r} overlap, or there is a gap before them")
        place = end
    if 8 + length + place != size:
        raise ValueError(f"its header accounts for {8 + length + place:,} bytes of {size:,}")
    return {name: entry for _, _, name, entry in places}


def _placed(name: str, value: Any) -> tuple[int, int, str, Entry]:
    match value:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [int(start), int(end)]}:
            if dtype in DTYPES and start >= 0 and are_sizes(shape):
                kind = DTYPES[dtype]
                if start + element_count(shape) * kind.itemsize == end:
                    return start, end, name, Entry(kind, tuple(shape))
    raise ValueError(f"its header says of {name!r} what cannot be")


def are_sizes(shape: Any) -> bool:
    """Whether something is the shape of a tensor that could be."""
    return (
        isinstance(shape, list)
        and len(shape) <= 64
        and all(type(one) is int and 0 <= one < 1 << 48 for one in shape)
        and element_count([max(one, 1) for one in shape]) < 1 << 48
    )


def element_count(shape: list[int] | tuple[int, ...]) -> int:
    """How many elements a tensor of this shape has."""
    count = 1
    for one in shape:
        count *= one
    return count


def read_elements(path: Path, first_byte: int, count: int, dtype: torch.dtype) -> Tensor:
    """So many elements from a byte of a file on, in a row."""
    row = torch.empty(count, dtype=dtype)
    with open_file(path) as file:
        file.seek(first_byte)
        view = view_of(_content(row))
        while view:
            found = file.readinto(view)
            if not found:
                raise ValueError("it ends before its last tensor does")
            view = view[found:]
    pulse.beats += 1
    return row


def first_bytes(path: Path, entries: Mapping[str, Entry]) -> dict[str, int]:
    """Where in a file with this header each tensor begins."""
    with open_file(path) as file:
        place = 8 + int.from_bytes(file.read(8), "little")
    places = {}
    for name, (dtype, shape) in entries.items():
        places[name] = place
        place += element_count(shape) * dtype.itemsize
    return places


def read_tensors(path: Path, entries: Mapping[str, Entry]) -> tuple[dict[str, Tensor], Sum]:
    """All tensors of a file with this header, each in memory of its own, and the file's sum."""
    digest, tensors = xxh3_128(), {}
    with open_file(path) as file:
        start = file.read(8)
        start += file.read(int.from_bytes(start, "little") & _MOST_HEADER)
        digest.update(start)
        size = len(start)
        for name, (dtype, shape) in entries.items():
            tensors[name] = torch.empty(shape, dtype=dtype)
            view = view_of(_content(tensors[name]))
            for place in range(0, len(view), _PIECE):
                piece = view[place : place + _PIECE]
                size += file.readinto(piece)
                digest.update(piece)
        size += len(file.read(1))
    return tensors, Sum(size, digest.hexdigest())
