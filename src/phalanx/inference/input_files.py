"""Which files `phalanx predict --input` takes, by their names. Without torch."""

from pathlib import Path

from phalanx.data.formats.image_folder import SUFFIXES as IMAGES
from phalanx.data.tables.encoding import check_encoding
from phalanx.data.tables.files import SUFFIXES as TABLES
from phalanx.errors import UsageError
from phalanx.files import what_it_is

_ARRAYS = (".npy", ".npz")


def is_table(path: Path) -> bool:
    """Whether a file is a table of text."""
    return path.name.lower().endswith(TABLES)


def check_input(path: Path, *, called: str = "--input") -> None:
    """Raise UsageError for what cannot be read, as far as a name tells."""
    if not path.exists():
        raise UsageError(f"{called} {path} does not exist")
    if (what := what_it_is(path)) is not None:
        raise UsageError(f"{called} {path} is {what}, not a file: write what it gives to one")
    if not path.is_dir() and not path.name.lower().endswith((*_ARRAYS, *TABLES, *IMAGES)):
        raise UsageError(
            f"{called} {path}: takes .npy, .npz or .csv files, and images "
            f"({', '.join(IMAGES)}) or a folder of them"
        )


def check_reading(
    path: Path | None, *, id_column: str | None, encoding: str | None, skip_bad: bool
) -> None:
    """Raise UsageError for a choice that samples of one's own do not know.

    Without a path samples are those of a data set, which knows what it takes but for the column.
    """
    if id_column is not None and (path is None or not is_table(path)):
        raise UsageError("--id names a column of a table: give one as --input, or leave it out")
    if path is None:
        return
    if encoding is not None and not is_table(path):
        raise UsageError("--encoding is about tables: give one as --input, or leave it out")
    if encoding is not None:
        check_encoding(encoding, "--encoding")
    if skip_bad and path.name.lower().endswith(_ARRAYS):
        raise UsageError("--skip-bad is about tables and images: leave it out")
