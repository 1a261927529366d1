import os
from collections.abc import Callable
from pathlib import Path

import pytest

IdxFolder = Callable[..., Path]


def idx(*shape: int, content: bytes) -> bytes:
    """An idx file of bytes."""
    sizes = b"".join(size.to_bytes(4, "big") for size in shape)
    return bytes([0, 0, 8, len(shape)]) + sizes + content


def images(count: int, side: int = 28) -> bytes:
    pixels = bytes(index % 256 for index in range(count * side * side))
    return idx(count, side, side, content=pixels)


def labels(*values: int) -> bytes:
    return idx(len(values), content=bytes(values))


@pytest.fixture
def idx_folder(tmp_path: Path) -> IdxFolder:
    """Writes a good folder of four idx files, save those given by name; None leaves one out."""

    def write(**changes: bytes | None) -> Path:
        files: dict[str, bytes | None] = {
            "train_images": images(3),
            "train_labels": labels(0, 9, 4),
            "t10k_images": images(2),
            "t10k_labels": labels(1, 2),
        }
        for key, content in (files | changes).items():
            part, kind = key.split("_")
            if content is not None:
                dimensions = 3 if kind == "images" else 1
                (tmp_path / f"{part}-{kind}-idx{dimensions}-ubyte").write_bytes(content)
        return tmp_path

    return write


@pytest.fixture
def real_data() -> Path:
    """The folder of real data sets, if this machine has one."""
    beside = Path(__file__).parents[3] / "shared" / "data"
    folder = Path(os.environ.get("PHALANX_DATA") or beside)
    if not folder.is_dir():
        pytest.skip("no real data here: set PHALANX_DATA to a folder of data sets")
    return folder
