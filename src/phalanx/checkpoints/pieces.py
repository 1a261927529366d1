"""Reading a state piece by piece: each rank takes its own from the files, and never the whole."""

from pathlib import Path
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from phalanx.checkpoints.document import Stored as Part
from phalanx.checkpoints.document import file_name
from phalanx.checkpoints.reading import checked_header, finished, naming, put, read_document
from phalanx.checkpoints.tensor_files import element_count, first_bytes, read_elements
from phalanx.errors import CheckpointError
from phalanx.state.parts import Portion, shaped

#: What is read at a time.
_PIECE = 16 << 20


class _Run(NamedTuple):
    """Consecutive elements of a tensor in a file."""

    path: Path
    first_byte: int
    #: In which order the tensor's dimensions are counted, and which element is the first.
    order: tuple[int, ...]
    start: int
    length: int
    dtype: torch.dtype

    def read(self, start: int, count: int) -> Tensor:
        """Some of them, by their numbers in the whole tensor."""
        place = self.first_byte + (start - self.start) * self.dtype.itemsize
        with naming(self.path):
            return read_elements(self.path, place, count, self.dtype)


@final
class StoredCheckpoint:
    """A checkpoint, whose bytes somebody has verified."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._document = read_document(path)
        self._places: dict[str, dict[str, int]] = {}
        for file in self._document.files:
            with naming(path / file):
                header = checked_header(path / file, self._document)
                self._places[file] = first_bytes(path / file, header)

    @property
    def values(self) -> dict[str, Any]:
        return self._document.values

    def names(self, prefix: str) -> list[str]:
        return [name for name in self._document.tensors if name.startswith(prefix)]

    def kind(self, name: str) -> tuple[tuple[int, ...], torch.dtype]:
        outline = self._parts(name)[0].outline
        return outline.shape, outline.dtype

    def read(self, name: str) -> Tensor:
        rows: dict[str, Tensor] = {}
        parts = self._parts(name)
        for part in parts:
            run = self._run(name, part)
            values = run.read(run.start, run.length)
            put(
                rows,
                name,
                parts,
                part,
                values if part.is_slice else values.view(part.outline.shape),
            )
        return finished(rows[name], parts)

    def read_into(self, name: str, piece: Tensor, portion: Portion) -> None:
        parts = self._parts(name)
        runs = [self._run(name, part) for part in parts]
        if parts[0].is_share or not all(_in_rows(run, portion.shape) for run in runs):
            piece.copy_(portion.of(self.read(name), piece))
        else:
            for run in runs[:1] if parts[0].outline.kind == "whole" else runs:
                _read_rows(run, piece, portion)

    def _parts(self, name: str) -> list[Part]:
        found = self._document.tensors.get(name)
        if found is None:
            raise CheckpointError(f"{self._path}: has no '{name}': it is of another training")
        return found

    def _run(self, name: str, part: Part) -> _Run:
        file, outline = file_name(part.rank), part.outline
        is_slice = outline.kind == "slice"
        return _Run(
            self._path / file,
            self._places[file][name],
            outline.order if is_slice else tuple(range(len(outline.shape))),
            outline.start,
            outline.length if is_slice else element_count(outline.shape),
            outline.dtype,
        )


def _in_rows(run: _Run, shape: tuple[int, ...]) -> bool:
    """Whether it has whole rows along the dimension that is counted slowest."""
    if not run.order or not element_count(shape):
        return False
    row = element_count(shape) // shape[run.order[0]]
    return run.start % row == 0 and run.length % row == 0


def _read_rows(run: _Run, piece: Tensor, portion: Portion) -> None:
    """Copy what a run has of a piece, some rows at a time."""
    shape, lead = portion.shape, run.order[0]
    row = element_count(shape) // shape[lead]
    first, last = run.start // row, (run.start + run.length) // row
    begin = 0
    if lead == portion.dimension:
        begin = portion.start
        first, last = max(first, begin), min(last, begin + piece.shape[lead])
    step = max(1, _PIECE // (row * run.dtype.itemsize))
    for at in range(first, last, step):
        rows = min(step, last - at)
        form = tuple(rows if one == lead else size for one, size in enumerate(shape))
        found = shaped(run.read(at * row, rows * row), form, run.order)
        if lead != portion.dimension:
            found = portion.of(found, piece)
        piece.narrow(lead, at - begin, rows).copy_(found)
