"""Files that appear whole or not at all, also if something fails while they are written."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path, *, suffix: str | None = None) -> Iterator[Path]:
    """A new, empty file beside `path` to write to, of its suffix or another; then it is `path`.

    Its own name cannot be foreseen, and it is made only if nothing is there: in a folder that
    others may write to, a link that they have laid cannot lead elsewhere.
    """
    suffix = path.suffix if suffix is None else suffix
    beside = path.with_name(f"{path.stem}.partial-{secrets.token_hex(4)}{suffix}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, flags, 0o666)
    mode = os.fstat(descriptor).st_mode & 0o777
    os.close(descriptor)
    try:
        yield beside
        beside.chmod(mode)  # whoever writes may put a file of another mode in its place
        _keep(beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _keep(path: Path) -> None:
    """Have the kernel write it to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
