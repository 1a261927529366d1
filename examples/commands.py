"""What the examples share: they train through the command line, as a user does."""

import csv
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from phalanx.runs.folder import read_result


@dataclass(frozen=True)
class Training:
    """One finished run of `phalanx train`."""

    #: By column of history.csv, a value an epoch; columns that stayed empty are left out.
    history: dict[str, list[float]]
    result: dict[str, Any]
    #: By rank, what each of several networks came to on its own samples: a value an epoch.
    networks: dict[int, dict[str, list[float]]]

    @property
    def accuracy(self) -> float:
        return float(self.result["test"]["accuracy"])

    @property
    def seconds(self) -> float:
        return float(self.result["seconds"])


def train(flags: Sequence[object], *, output: Path, quiet: bool = True) -> Training:
    """Run `phalanx train FLAGS`, show the command, and read what is in its run folder."""
    words = list(map(str, flags))
    print(f"$ phalanx train {shlex.join(words)}", flush=True)
    command = [sys.executable, "-m", "phalanx", "train", *words, "--output", str(output)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL if quiet else None)
    history = read_history(output / "history.csv")
    return Training(history, read_result(output), read_networks(output / "networks.csv"))


def read_history(path: Path) -> dict[str, list[float]]:
    """The columns of a history.csv."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    filled = [name for name in (rows[0] if rows else {}) if rows[0][name]]
    return {name: [float(row[name]) for row in rows] for name in filled}


def read_networks(path: Path) -> dict[int, dict[str, list[float]]]:
    """The columns of a networks.csv, rank by rank; a training on one rank has none."""
    found: dict[int, dict[str, list[float]]] = {}
    if path.exists():
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                columns = found.setdefault(int(row["rank"]), {"loss": [], "accuracy": []})
                for name, values in columns.items():
                    values.append(float(row[name]))
    return found


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, numbers to the right and whole, however narrow the terminal is."""
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    print()
    needed = Console(width=10_000).measure(table).maximum
    Console(width=max(Console().width, needed)).print(table)
