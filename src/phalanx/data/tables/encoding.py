"""What encoding the text of a table is in: what a user says, what its first bytes say, or UTF-8.

Without torch.
"""

import codecs
import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path

from phalanx.errors import DataError, UsageError
from phalanx.files import open_file

DEFAULT = "utf-8"
# The longer marks first: the one of UTF-32 begins as the one of UTF-16 does.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SUCH_AS = "such as cp1252 (Windows, Western Europe), latin-1 or utf-16"
#: So many bytes tell the encoding.
_HEAD = 4096


def check_encoding(name: str, spelled: str) -> None:
    """Raise a UsageError for an encoding that Python does not know."""
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=name)
    except (LookupError, ValueError):
        raise UsageError(
            f"{spelled} {name}: there is no such encoding of text; name one {_SUCH_AS}"
        ) from None


@contextmanager
def open_text(path: Path, encoding: str | None) -> Iterator[TextIOWrapper]:
    """The text of a file, plain or gzipped; a DataError if it is in another encoding."""
    with open_file(path) as raw:
        packed = raw.peek(2)[:2] == b"\x1f\x8b"
        file = gzip.GzipFile(fileobj=raw) if packed else raw
        head = file.read(_HEAD)
        file.seek(0)
        chosen = encoding or _encoding_of(head, path)
        if codecs.lookup(chosen).name == DEFAULT:
            chosen = "utf-8-sig"  # which takes it without a mark as well
        try:
            yield io.TextIOWrapper(file, encoding=chosen, newline="")
        except UnicodeError as error:
            raise DataError(
                f"{path}: not a table of text in {chosen.removesuffix('-sig')} ({error}): name its "
                f"encoding with --encoding, {_SUCH_AS}"
            ) from error


def _encoding_of(head: bytes, path: Path) -> str:
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    if b"\0" in head:
        raise DataError(
            f"{path}: not a table of text in {DEFAULT}: it holds zero bytes, as utf-16 does; name "
            "its encoding with --encoding, such as utf-16-le"
        )
    return DEFAULT
