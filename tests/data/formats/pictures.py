"""Images for tests: a folder a colour, and files that are not what they claim to be."""

import struct
import zlib
from pathlib import Path

import pytest

Image = pytest.importorskip("PIL.Image")

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}


def paint(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (20, 10)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


def tree(root: Path, count: int = 3) -> Path:
    """A folder a colour; the sizes of images differ."""
    for name, colour in COLOURS.items():
        for number in range(count):
            paint(root / name / f"{number}.png", colour, (10 + number, 30 - number))
    return root


def huge_png() -> bytes:
    """A small file that claims to be an image of 2.5 thousand million pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    header = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b""))
