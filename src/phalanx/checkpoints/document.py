"""checkpoint.json: what a checkpoint is made of, and the checksums of it all, its own included."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple, final

from phalanx.checkpoints import plain
from phalanx.checkpoints.tensor_files import DTYPES, Entry, Sum, are_sizes, element_count
from phalanx.documents import MOST_BYTES, parse_json
from phalanx.state.gathering import Outline

VERSION = 1
NAME = "checkpoint.json"
_FILE = re.compile(r"rank-(0|[1-9]\d{0,8})\.safetensors")
SEAL = "sha256"
_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in DTYPES.values()}
_KINDS = ("whole", "slice", "sum", "mean")


class Stored(NamedTuple):
    """A part of a tensor, and the rank whose file has it, under the tensor's name."""

    rank: int
    outline: Outline

    @property
    def is_slice(self) -> bool:
        """Whether it is a run of elements."""
        return self.outline.kind == "slice"

    @property
    def is_share(self) -> bool:
        """Whether it is a rank's own, in a sum or a mean."""
        return self.outline.kind in ("sum", "mean")


@final
@dataclass(frozen=True)
class Document:
    """What checkpoint.json says."""

    step: int
    ranks: int
    values: dict[str, Any]
    tensors: dict[str, list[Stored]]
    files: dict[str, Sum]


def file_name(rank: int) -> str:
    """What the file of a rank is called."""
    return f"rank-{rank}.safetensors"


def parts_to_store(everyone: Sequence[Mapping[str, Outline]]) -> dict[str, list[Stored]]:
    """Which rank writes what, of what the ranks have.

    Of what several have whole, or the same slice of, the first one's; what is in sums and means,
    everybody's, with which the same ranks may go on as they were. A ValueError if some is missing.
    """
    names = dict.fromkeys(name for one in everyone for name in one)
    stored: dict[str, list[Stored]] = {}
    for name in names:
        there = [Stored(rank, one[name]) for rank, one in enumerate(everyone) if name in one]
        whole = next((one for one in there if one.outline.kind == "whole"), None)
        shares = [one for one in there if one.is_share]
        if whole is not None:
            stored[name] = [whole, *shares]
        elif there[0].outline.kind == "slice":
            first = {one.outline.start: one for one in reversed(there) if one.outline.length}
            stored[name] = [first[start] for start in sorted(first)] or there[:1]
            _check_slices(name, [one.outline for one in stored[name]])
        else:
            stored[name] = shares
    return stored


def to_text(document: Document) -> str:
    """The text of checkpoint.json."""
    content = {
        "format": "phalanx checkpoint",
        "version": VERSION,
        "step": document.step,
        "ranks": document.ranks,
        "values": plain.encode(document.values),
        "tensors": {
            name: [_part_to_json(name, one) for one in parts]
            for name, parts in document.tensors.items()
        },
        "files": {name: one._asdict() for name, one in document.files.items()},
    }
    text = json.dumps(content | {SEAL: seal_of(content)}, allow_nan=False) + "\n"
    if len(text) > MOST_BYTES:
        raise ValueError(f"{NAME} would have more than {MOST_BYTES >> 20} MiB")
    return text


def _part_to_json(name: str, part: Stored) -> dict[str, Any]:
    kind, shape, dtype, order, start, length = part.outline
    found: dict[str, Any] = {
        "file": file_name(part.rank),
        "key": name,
        "kind": kind,
        "shape": list(shape),
        "dtype": str(dtype).removeprefix("torch."),
    }
    if kind == "slice":
        found |= {"order": list(order), "start": start, "length": length}
    return found


def seal_of(content: dict[str, Any]) -> str:
    """The checksum of all the rest, however it is laid out."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return sha256(text.encode()).hexdigest()


def from_text(text: str) -> Document:
    """What a checkpoint.json says; a ValueError if it cannot be, or is not what was written."""
    content = parse_json(text)
    if not isinstance(content, dict) or content.get("format") != "phalanx checkpoint":
        raise ValueError("it is not that of a checkpoint")
    if content.get("version") != VERSION:
        raise ValueError(
            f"it is of version {content.get('version')!r}, and this Phalanx reads version {VERSION}"
        )
    seal = content.pop(SEAL, None)
    if seal != seal_of(content):
        raise ValueError("its checksum is another: it was changed after it was written")
    match content:
        case {
            "step": int(step),
            "ranks": int(ranks),
            "values": dict(values),
            "tensors": dict(tensors),
            "files": dict(files),
        } if step >= 0 and ranks >= 1:
            document = Document(
                step=step,
                ranks=ranks,
                values=_values(values),
                tensors={name: _parts(name, one) for name, one in tensors.items()},
                files={name: _sum(name, one) for name, one in files.items()},
            )
        case _:
            raise ValueError("step, ranks, values, tensors or files are not as they are written")
    _check_files(document)
    return document


def _values(found: dict[str, Any]) -> dict[str, Any]:
    values = plain.decode(found)
    if not isinstance(values, dict):
        raise ValueError("its values are no dictionary")
    return values


def _sum(name: str, found: Any) -> Sum:
    match found:
        case {"size": int(size), "xxh128": str(digest)} if size > 0 and len(found) == 2:
            return Sum(size, digest)
    raise ValueError(f"it says of the file {name!r} what cannot be")


def _parts(name: str, found: Any) -> list[Stored]:
    if not isinstance(found, list) or not found:
        raise ValueError(f"it has no parts of {name!r}")
    parts = [_part(name, one) for one in found]
    first = parts[0].outline
    if any(one.outline[1:4] != first[1:4] for one in parts):
        raise ValueError(f"the parts of {name!r} are of different tensors")
    if len({one.rank for one in parts}) < len(parts):
        raise ValueError(f"a rank has two parts of {name!r}")
    if first.kind == "slice":
        _check_slices(name, [one.outline for one in parts])
    kinds = {one.outline.kind for one in parts[first.kind == "whole" :]}
    if len(kinds) > 1 or "whole" in kinds or (first.kind == "whole" and "slice" in kinds):
        raise ValueError(f"the parts of {name!r} do not go together")
    return parts


def _part(name: str, found: Any) -> Stored:
    match found:
        case {"file": str(file), "key": key, "kind": kind, "shape": shape, "dtype": str(dtype)}:
            where = _FILE.fullmatch(file)
            if where and key == name and kind in _KINDS and dtype in _DTYPES and are_sizes(shape):
                outline = Outline(kind, tuple(shape), _DTYPES[dtype])
                if kind == "slice":
                    outline = _sliced(found, outline)
                return Stored(int(where[1]), outline)
    raise ValueError(f"it says of {name!r} what cannot be")


def _sliced(found: dict[str, Any], outline: Outline) -> Outline:
    match found:
        case {"order": list(order), "start": int(start), "length": int(length)}:
            dimensions = list(range(len(outline.shape)))
            if sorted(order, key=str) == sorted(dimensions, key=str) and min(start, length) >= 0:
                return outline._replace(order=tuple(order), start=start, length=length)
    raise ValueError("it has a slice that cannot be")


def _check_slices(name: str, slices: list[Outline]) -> None:
    """Each element is in one slice: what is claimed is there, and nothing is missing."""
    place = 0
    for one in slices:
        if one.start != place:
            raise ValueError(f"the slices of {name!r} overlap, or one is missing")
        place += one.length
    if place != element_count(slices[0].shape):
        raise ValueError(f"the slices of {name!r} are not all of it")


def _check_files(document: Document) -> None:
    named = {file_name(one.rank) for parts in document.tensors.values() for one in parts}
    if named != set(document.files):
        raise ValueError("its files are not those that have its tensors")
    if any(one.rank >= document.ranks for parts in document.tensors.values() for one in parts):
        raise ValueError("it has parts of more ranks than it was written by")


def in_file(document: Document, file: str) -> dict[str, Entry]:
    """What a file must hold."""
    return {
        name: Entry(
            one.outline.dtype,
            (one.outline.length,) if one.outline.kind == "slice" else one.outline.shape,
        )
        for name, parts in document.tensors.items()
        for one in parts
        if file_name(one.rank) == file
    }
