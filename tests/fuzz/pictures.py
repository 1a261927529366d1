"""The reader of images, in every format that it knows."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from phalanx.data.formats.image_files import decode
from tests.fuzz.mutations import Seed

SIZE = (8, 8)
_PIXELS = (np.arange(12 * 10 * 3) * 5 % 256).astype(np.uint8).reshape(12, 10, 3)
_FORMATS = ("jpeg", "png", "bmp", "gif", "webp", "tiff", "ppm")


def picture(form: str, mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.fromarray(_PIXELS).convert(mode).save(file, form)
    return file.getvalue()


def png(*, header: bytes | None = None, body: bytes | None = None) -> bytes:
    """A PNG whose checksums are right, whatever is in it."""
    sizes = struct.pack(">IIBBBBB", 10, 12, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in _PIXELS)
    chunks = ((b"IHDR", header or sizes), (b"IDAT", body or zlib.compress(rows)), (b"IEND", b""))
    packed = (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


class Images:
    """Images, some of them damaged before their checksums are made."""

    def seeds(self) -> list[Seed]:
        files = [Seed(picture(form), file=f"some.{form}") for form in _FORMATS]
        grey = [Seed(picture(form, "L"), file=f"some.{form}") for form in ("png", "tiff", "ppm")]
        header = struct.pack(">IIBBBBB", 10, 12, 8, 2, 0, 0, 0)
        rows = b"".join(b"\0" + row.tobytes() for row in _PIXELS)
        return [
            *files,
            *grey,
            Seed(picture("png", "P"), file="some.png"),
            Seed(header, lambda changed: png(header=changed), file="right.png"),
            Seed(rows, lambda changed: png(body=zlib.compress(changed)), file="right.png"),
        ]

    def read(self, folder: Path, changed: Path) -> None:
        pixels = decode(str(changed), SIZE)
        assert pixels.shape == (3, *SIZE)
        assert pixels.dtype == np.uint8
        if changed.name == "some.png" and changed.read_bytes()[:8] == picture("png")[:8]:
            # Its checksums are those of the whole picture: what they let pass is that picture.
            known = []
            for mode in ("RGB", "L", "P"):
                (folder / "whole").write_bytes(picture("png", mode))
                known.append(decode(str(folder / "whole"), SIZE))
            assert any(np.array_equal(pixels, one) for one in known)
