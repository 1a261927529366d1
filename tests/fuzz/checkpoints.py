"""Readers of checkpoints: damaged after they were written, or forged so that all sums are right."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import torch

from phalanx.checkpoints import newest_whole, read_checkpoint
from phalanx.checkpoints.document import NAME, SEAL, seal_of
from phalanx.checkpoints.tensor_files import file_sum
from phalanx.errors import CheckpointError
from phalanx.state import State
from tests.checkpoints.examples import TENSORS, VALUES, write_parts
from tests.fuzz.mutations import Seed
from tests.fuzz.values import change_json

_GONE = b"gone"


@cache
def _files() -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        path = write_parts(Path(folder) / "checkpoint")
        return {one.name: one.read_bytes() for one in sorted(path.iterdir())}


def _remove(_content: bytes, _random: Random) -> bytes:
    return _GONE


def _change_header(content: bytes, random: Random) -> bytes:
    """Wrong shapes, names, dtypes and places in a header of safetensors that is valid JSON."""
    length = int.from_bytes(content[:8], "little")
    header = change_json(content[8 : 8 + length], random)
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def _swap_files(content: bytes, random: Random) -> bytes:
    return _files()[random.choice(list(_files()))]


def _read(path: Path) -> State:
    """The state; whoever refuses it does so in a line that names the file, and looking does too."""
    refused = _refusal(lambda: read_checkpoint(path))
    before = _refusal(lambda: newest_whole(path.parent))
    if refused is None:
        assert before is None
    else:
        assert before is not None
        assert refused in before
        assert refused.startswith((f"{path}/", f"{path}:"))
        assert "\n" not in before
    return read_checkpoint(path, rank=0, size=2)


def _refusal(call: Callable[[], object]) -> str | None:
    try:
        call()
    except CheckpointError as error:
        return str(error)
    return None


def _complete(folder: Path, changed: Path) -> Path:
    """The checkpoint with one file changed, or gone."""
    path = folder / "step-000000005"
    path.mkdir()
    for name, content in _files().items():
        (path / name).write_bytes(content)
    content = changed.read_bytes()
    changed.unlink()
    if content == _GONE:
        (path / changed.name).unlink()
    else:
        (path / changed.name).write_bytes(content)
    return path


class Checkpoint:
    """Damaged by a disk: what is read is what was written, to the last bit."""

    def seeds(self) -> list[Seed]:
        return [
            Seed(
                content,
                file=name,
                own=(_remove, _swap_files, change_json if name == NAME else _change_header),
            )
            for name, content in _files().items()
        ]

    def read(self, folder: Path, changed: Path) -> None:
        state = _read(_complete(folder, changed))
        assert state.values == VALUES
        assert list(state.tensors) == list(TENSORS)
        for name, tensor in TENSORS.items():
            assert state.tensor(name).dtype == tensor.dtype
            assert torch.equal(state.tensor(name), tensor)


class ForgedCheckpoint:
    """Made so that every checksum is right: refused, or the same tensors by name and shape."""

    def seeds(self) -> list[Seed]:
        return [
            Seed(content, file=name, own=(change_json if name == NAME else _change_header,))
            for name, content in _files().items()
        ]

    def read(self, folder: Path, changed: Path) -> None:
        path = _complete(folder, changed)
        _forge(path, changed.name)
        state = _read(path)
        assert isinstance(state.values, dict)
        assert set(state.tensors) == set(TENSORS)
        for name, tensor in TENSORS.items():
            assert state.tensor(name).dtype == tensor.dtype
            assert state.tensor(name).shape == tensor.shape
            if changed.name == NAME:
                assert torch.equal(state.tensor(name), tensor)


def _forge(path: Path, changed: str) -> None:
    try:
        content = json.loads((path / NAME).read_bytes())
        content.pop(SEAL)
        if changed != NAME:
            content["files"][changed] = file_sum(path / changed)._asdict()
        seal = seal_of(content)
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return  # it is no longer JSON, and is to be refused as it is
    (path / NAME).write_text(json.dumps(content | {SEAL: seal}))
