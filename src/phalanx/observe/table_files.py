"""Tables for scripts, as JSON and as CSV: whole files or none."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from phalanx.whole_files import whole_file


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write one JSON object."""
    _write(path, json.dumps(value, indent=2) + "\n")


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of the same names as CSV; what is not known is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    _write(path, text.getvalue())


def _write(path: Path, text: str) -> None:
    with whole_file(path) as beside:
        beside.write_text(text, encoding="utf-8")
