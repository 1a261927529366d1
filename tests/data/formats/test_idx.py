import gzip
import math
from pathlib import Path

import pytest
import torch

from phalanx.data.formats.idx import read_idx
from phalanx.errors import DataError


def packed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


GOOD = bytes([0, 0, 8, 1, 0, 0, 0, 3, 5, 6, 7])
PACKED = packed(GOOD)
HUGE = bytes([0, 0, 8, 3]) + b"\xff" * 12


@pytest.mark.parametrize("content", [GOOD, PACKED], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", ["labels", "labels.gz"])
def test_compression_shows_in_the_content_not_the_name(
    tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert read_idx(path, dimensions=1).tolist() == [5, 6, 7]


def test_dimensions_come_from_the_header(tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4]))
    assert torch.equal(
        read_idx(path, dimensions=3), torch.tensor([[[1, 2], [3, 4]]], dtype=torch.uint8)
    )


def test_an_empty_array_is_an_array(tmp_path: Path) -> None:
    path = tmp_path / "none"
    path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 0]))
    assert read_idx(path, dimensions=1).shape == (0,)


@pytest.mark.parametrize(
    ("content", "dimensions", "cause"),
    [
        (b"", 1, "starts with nothing, not 00 00 08 01"),
        (b"GIF89a", 1, "starts with 47 49 46 38, not 00 00 08 01"),
        (GOOD, 3, "not an idx file of 3-dimensional bytes"),
        (bytes([0, 0, 13, 1]) + GOOD[4:], 1, "starts with 00 00 0d 01"),
        (GOOD[:6], 1, "ends inside the header"),
        (GOOD[:-1], 1, "too short: the header tells of 3 = 3 bytes, 2 are there"),
        (GOOD + b"!", 1, "bytes after the 3 = 3 of the header"),
        (HUGE, 3, f"= {math.prod([2**32 - 1] * 3):,} bytes, 0 are there"),
        (packed(HUGE), 3, " bytes, at most "),
        (packed(GOOD[:-1]), 1, "too short"),
        (packed(GOOD + b"!"), 1, "bytes after"),
        (PACKED[:-9], 1, "damaged gzip"),
        (PACKED[:5], 1, "damaged gzip"),
        (PACKED[:10] + b"\xff" + PACKED[11:], 1, "damaged gzip"),
        (PACKED[:-8] + bytes(4) + PACKED[-4:], 1, "damaged gzip file: CRC check failed"),
        (PACKED + b"rubbish", 1, "damaged gzip"),
    ],
)
def test_bad_files_are_named_with_the_cause(
    tmp_path: Path, content: bytes, dimensions: int, cause: str
) -> None:
    path = tmp_path / "bad-file"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_idx(path, dimensions=dimensions)
    assert str(caught.value).startswith(f"{path}: ")
    assert cause in str(caught.value)


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_idx(tmp_path, dimensions=1)
    with pytest.raises(DataError, match="absent: cannot be read: No such file"):
        read_idx(tmp_path / "absent", dimensions=1)
