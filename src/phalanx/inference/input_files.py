"""Which files `phalanx predict --input` takes, by their names. Without torch."""

from pathlib import Path

from phalanx.data.formats.image_folder import SUFFIXES as IMAGES
from phalanx.data.tables.files import SUFFIXES as TABLES
from phalanx.errors import UsageError

_ARRAYS = (".npy", ".npz")


def is_table(path: Path) -> bool:
    """Whether a file is a table of text."""
    return path.name.lower().endswith(TABLES)


def check_input(path: Path) -> None:
    """Raise UsageError for what cannot be read, as far as a name tells."""
    if not path.exists():
        raise UsageError(f"--input {path} does not exist")
    if not path.is_dir() and not path.name.lower().endswith((*_ARRAYS, *TABLES, *IMAGES)):
        raise UsageError(
            f"--input {path}: takes .npy, .npz or .csv files, and images "
            f"({', '.join(IMAGES)}) or a folder of them"
        )
