"""The checksums of a PNG file: Pillow decodes pixels without looking at them. Without torch."""

import zlib
from typing import IO

from phalanx.errors import DataError

_MAGIC = b"\x89PNG\r\n\x1a\n"
#: What pixels are made of; what else there is says nothing about them.
_CHECKED = (b"IHDR", b"PLTE", b"tRNS", b"IDAT")
_PIECE = 1 << 20


def check_png(file: IO[bytes]) -> None:
    """Raise a DataError for a PNG with a part that is not what was written; others are left alone.

    A file that ends too early is Pillow's to find.
    """
    file.seek(0)
    if file.read(len(_MAGIC)) == _MAGIC:
        while (head := file.read(8))[4:] not in (b"", b"IEND") and _is_right(file, head):
            pass
    file.seek(0)


def _is_right(file: IO[bytes], head: bytes) -> bool:
    """Whether there may be more chunks after this one, which is as it was written."""
    left, kind = int.from_bytes(head[:4], "big"), head[4:]
    checksum = zlib.crc32(kind)
    while left and (piece := file.read(min(left, _PIECE))):
        checksum = zlib.crc32(piece, checksum)
        left -= len(piece)
    written = file.read(4)
    if left or len(written) < 4:
        return False
    if kind in _CHECKED and int.from_bytes(written, "big") != checksum:
        raise DataError(f"the checksum of its {kind.decode()} is wrong: the file is damaged")
    return True
