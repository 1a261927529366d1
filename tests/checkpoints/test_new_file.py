"""Files that are written past the cache: the same bytes, whatever the file system can do."""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from phalanx.checkpoints import new_file
from phalanx.checkpoints.new_file import NewFile

ROOM = 4 << 20
BYTES = torch.randint(0, 256, (2 * ROOM + 5000,), dtype=torch.uint8)


def written(path: Path, content: Tensor, *, pieces: int) -> bytes:
    with NewFile(path) as file:
        for start in range(0, len(content), pieces):
            file.write(content[start : start + pieces])
        file.finish()
    return path.read_bytes()


def is_direct(descriptor: int) -> bool:
    return bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT)


@pytest.mark.parametrize("size", [0, 1, ROOM - 1, ROOM, ROOM + 1, 2 * ROOM + 4999])
@pytest.mark.parametrize("pieces", [1 << 20, 999_983, 3 * ROOM])
def test_all_bytes_in_their_order(tmp_path: Path, size: int, pieces: int) -> None:
    content = BYTES[1 : 1 + size]  # in memory that does not begin with a block
    assert written(tmp_path / "file", content, pieces=pieces) == bytes(content.numpy())


def refuse_direct_writes(descriptor: int, piece: memoryview) -> int:
    """As a file system does whose blocks are larger."""
    if is_direct(descriptor):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return os.write(descriptor, piece)


def write_little(descriptor: int, piece: memoryview) -> int:
    """As a disk does that is nearly full: not in whole blocks."""
    if is_direct(descriptor) and len(piece) % 4096 == 0:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_WRONLY)
        done = os.write(descriptor, piece[:1_000_001])
        fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_WRONLY | os.O_DIRECT)
        return done
    return os.write(descriptor, piece[:2_000_001])


@pytest.mark.parametrize("write", [refuse_direct_writes, write_little])
def test_a_disk_that_does_not_take_it_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[int, memoryview], int]
) -> None:
    monkeypatch.setattr(new_file, "os", _OtherWrite(write))
    assert written(tmp_path / "file", BYTES, pieces=1 << 20) == bytes(BYTES.numpy())


class _OtherWrite:
    """The module `os`, with another `write`."""

    def __init__(self, write: Callable[[int, memoryview], int]) -> None:
        self.write = write

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


def test_a_file_system_that_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, command: int, argument: int = 0) -> int:
        if argument & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return fcntl.fcntl(descriptor, command, argument)

    class Refusing:
        F_GETFL, F_SETFL, fcntl = fcntl.F_GETFL, fcntl.F_SETFL, staticmethod(refuse)

    monkeypatch.setattr(new_file, "fcntl", Refusing)
    assert written(tmp_path / "file", BYTES, pieces=1 << 20) == bytes(BYTES.numpy())


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError):
        NewFile(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
