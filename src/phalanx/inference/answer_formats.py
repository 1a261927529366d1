"""The files that answers are written to, by how their names end. Without torch."""

from importlib.util import find_spec
from pathlib import Path

from phalanx.data.targets.tasks import CLASSIFICATION
from phalanx.errors import UsageError

#: A file without an ending is csv, too.
SUFFIXES = (".csv", ".parquet", ".npz")


def answers_suffix(path: Path) -> str:
    """How a file of answers ends; a UsageError if it is of no format that can be written here."""
    suffix = path.suffix.lower() or ".csv"
    if suffix not in SUFFIXES:
        raise UsageError(
            f"--output {path}: answers are written as {', '.join(SUFFIXES[:-1])} or "
            f"{SUFFIXES[-1]}: name a file that ends so"
        )
    if suffix == ".parquet" and find_spec("pyarrow") is None:
        raise UsageError(
            f"--output {path}: .parquet is written with pyarrow, which is not installed: "
            "pip install 'phalanx[parquet]', or name a .csv file"
        )
    return suffix


def check_top(top: int | None, classes: int, *, task: str = CLASSIFICATION) -> None:
    """Refuse to tell more classes than there are, or none, or those of what has none."""
    if top is not None and task != CLASSIFICATION:
        raise UsageError(f"--top {top} is for models that tell classes apart, not for {task}")
    if top is not None and not 1 <= top <= classes:
        raise UsageError(f"--top {top}: the model knows {classes} classes: take 1 to {classes}")
