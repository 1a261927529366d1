"""A line for whatever cannot be written: on a full disk, or in a folder that is gone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from phalanx.errors import RunError


class WritingError(RunError):
    """A file that cannot be written."""

    exit_code = 1


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """While inside, a failure of the system is a WritingError that names this file."""
    try:
        yield
    except OSError as error:
        raise WritingError(
            f"{path}: cannot be written: {cause_of(error)}; name another file"
        ) from error


def cause_of(error: BaseException) -> str:
    """Why writing failed, without the names of files that a user knows nothing of."""
    return (isinstance(error, OSError) and error.strerror) or str(error)
