"""Reading checkpoints: every byte is verified, or the file is refused by its name."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor

from phalanx.checkpoints import document
from phalanx.checkpoints.document import Document, Stored, file_name
from phalanx.checkpoints.folders import written
from phalanx.checkpoints.tensor_files import (
    Entry,
    Sum,
    element_count,
    file_sum,
    read_header,
    read_tensors,
)
from phalanx.data.containers.memory import free_memory
from phalanx.documents import read_text
from phalanx.errors import CheckpointError
from phalanx.files import check_file
from phalanx.state import State
from phalanx.state.parts import shaped
from phalanx.wording import byte_size

_MOST_LETTERS = 300


def latest(folder: Path) -> Path | None:
    """The newest checkpoint in a folder, whole or not; None if it has none."""
    return next(iter(written(folder)), None)


def newest_whole(folder: Path) -> tuple[Path, list[str]]:
    """The newest checkpoint that is as it was written, and why each newer one is not."""
    passed_over = []
    for path in written(folder):
        try:
            verify(path)
        except CheckpointError as error:
            passed_over.append(str(error))
        else:
            return path, passed_over
    reasons = "".join(f"; {one}" for one in passed_over)
    raise CheckpointError(f"{folder}: has no checkpoint that can be read{reasons}")


def verify(path: Path) -> None:
    """Raise unless a checkpoint is as it was written; takes no memory to speak of."""
    found = read_document(path)
    for name, expected in found.files.items():
        with naming(path / name):
            checked_header(path / name, found)
            _check_sum(file_sum(path / name), expected)


def read_checkpoint(path: Path, *, rank: int | None = None, size: int | None = None) -> State:
    """The whole state that a checkpoint holds.

    For a rank of as many as wrote it, it has what that rank had of its own as well.
    """
    found = read_document(path)
    _check_memory(path, found)
    state = State(values=found.values)
    if rank is not None and size == found.ranks:
        state.origin = (rank, size)
    rows: dict[str, Tensor] = {}
    for file in sorted(found.files, key=lambda name: (len(name), name)):
        with naming(path / file):
            tensors, seen = read_tensors(path / file, checked_header(path / file, found))
            _check_sum(seen, found.files[file])
            for name, tensor in tensors.items():
                part = next(one for one in found.tensors[name] if file_name(one.rank) == file)
                put(rows, name, found.tensors[name], part, tensor)
                if state.origin is not None and part.rank == rank and part.is_share:
                    state.own[name] = tensor
    with naming(path / document.NAME):
        for name, parts in found.tensors.items():
            state.tensors[name] = finished(rows[name], parts)
    return state


def put(
    rows: dict[str, Tensor], name: str, parts: list[Stored], part: Stored, values: Tensor
) -> None:
    """Put a part in its place: into a row of all elements, or onto a sum."""
    match part.outline.kind:
        case "whole":
            rows[name] = values
        case "slice":
            if name not in rows:
                rows[name] = values.new_empty(element_count(part.outline.shape))
            start = part.outline.start
            rows[name][start : start + part.outline.length] = values
        case _ if parts[0].is_share:  # else one rank has it whole
            rows[name] = rows[name].add_(values) if name in rows else values.clone()


def finished(tensor: Tensor, parts: list[Stored]) -> Tensor:
    first = parts[0].outline
    if first.kind == "slice":
        return shaped(tensor, first.shape, first.order)
    return tensor.div_(len(parts)) if first.kind == "mean" else tensor


def read_document(path: Path) -> Document:
    with naming(path / document.NAME):
        return document.from_text(read_text(path / document.NAME))


def checked_header(path: Path, found: Document) -> dict[str, Entry]:
    """The header of a file; raises if its size or what it has is not what checkpoint.json says."""
    check_file(path)
    size, expected = path.stat().st_size, found.files[path.name].size
    if size != expected:
        raise ValueError(f"it has {size:,} bytes, and {expected:,} were written")
    entries = read_header(path)
    if entries != document.in_file(found, path.name):
        raise ValueError(f"its tensors are not those that {document.NAME} names")
    return entries


def _check_sum(seen: Sum, expected: Sum) -> None:
    if seen != expected:
        raise ValueError("its checksum is another: it was changed after it was written")


def _check_memory(path: Path, found: Document) -> None:
    """Raise before anything is taken: slices are held besides the tensors that they make."""
    for name in found.files:
        with naming(path / name):
            checked_header(path / name, found)
    needed = sum(one.size for one in found.files.values())
    needed += max((one.size for one in found.files.values()), default=0)
    free = free_memory()
    if needed > free:
        raise CheckpointError(
            f"{path}: takes {byte_size(needed)} of memory, and {byte_size(free)} are free"
        )


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Whatever is wrong with a file is an error of one line that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: there is no such file in the checkpoint") from error
    except (OSError, ValueError, RuntimeError, MemoryError) as error:
        cause = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise CheckpointError(
            f"{path}: the checkpoint cannot be read: {cause[:_MOST_LETTERS]}"
        ) from error
