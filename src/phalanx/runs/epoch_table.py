"""A file with rows for each epoch of a training, which goes on where the training does."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import final

from phalanx.whole_files import whole_file

Row = Mapping[str, float | str]


@final
class EpochTable:
    """Rows by epoch, in their order: an epoch that is written again replaces what was there of it,
    and what was there of later ones."""

    def __init__(self, path: Path) -> None:
        self._path = path
        #: Of the file as this process has left it: its columns and its last epoch. What another
        #: one has left may end in the middle of a row.
        self._known: tuple[list[str], int] | None = None

    def put(self, epoch: int, rows: Sequence[Row]) -> None:
        """Write the rows of an epoch, which all have the same columns, `epoch` among them."""
        if not rows:
            return
        columns = [*rows[0]]
        known = self._known if self._path.exists() else None
        if known is None or known[0] != columns or known[1] >= epoch:
            self.write([*read_rows(self._path, before=epoch), *rows])
            return
        with self._path.open("a", newline="") as file:
            csv.writer(file).writerows([*row.values()] for row in rows)
        self._known = columns, epoch

    def write(self, rows: Sequence[Row]) -> None:
        """Have these rows and no others; one without some column has nothing there."""
        if not rows:
            self._path.unlink(missing_ok=True)
            self._known = None
            return
        columns = [*dict.fromkeys(name for row in rows for name in row)]
        with whole_file(self._path) as beside, beside.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(rows)
        self._known = columns, max(map(_epoch, rows))


def read_rows(path: Path, *, before: int | None = None) -> list[dict[str, str]]:
    """The rows of a table, or those before an epoch, as texts.

    What a training that was killed has left of a row is none.
    """
    try:
        with path.open(newline="", errors="replace") as file:
            rows = [*whole_rows(csv.DictReader(file))]
    except (FileNotFoundError, csv.Error):
        return []
    return rows if before is None else [row for row in rows if _epoch(row) < before]


def whole_rows(rows: Iterable[dict[str, str]]) -> Iterable[dict[str, str]]:
    """Those that have all their columns, and are of an epoch."""
    for row in rows:
        complete = None not in row and None not in row.values()
        if complete and row.get("epoch", "").isdecimal():
            yield row


def _epoch(row: Row) -> int:
    return int(row["epoch"])
