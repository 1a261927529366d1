"""A run's folder: what was asked for, how it went, what came out.

config.json        the settings, and the versions and machine that they ran with
history.csv        a row an epoch
model.safetensors  the trained weights
result.json        time, throughput, test metrics and the weights' fingerprint
"""

import csv
import json
import math
import os
import platform
import socket
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from phalanx.errors import RunError, UsageError
from phalanx.settings.files import settings_from
from phalanx.settings.table import Settings

_PACKAGES = ("phalanx", "torch", "numpy", "mpi4py", "safetensors")


class RunFolder:
    """Written by rank 0 while a training goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, settings: Settings) -> "RunFolder":
        """The folder the user named, or the next free one under runs/."""
        if settings.output is not None:
            return cls(_made(settings.output))
        # A user's own is named by its file.
        dataset, model = (
            Path(name.partition(":")[0]).stem for name in (settings.dataset, settings.model)
        )
        base = _made(Path("runs"))
        number = 1
        while True:
            path = base / f"{dataset}-{model}-{number}"
            try:
                path.mkdir()
            except FileExistsError:
                number += 1
            else:
                return cls(path)

    def write_config(self, settings: Settings, *, ranks: int, threads: int, strategy: str) -> None:
        """Write config.json."""
        used = settings.for_json() | {"ranks": ranks, "threads": threads, "strategy": strategy}
        self._write_json(
            "config.json",
            {
                "settings": used,
                "versions": {name: version(name) for name in _PACKAGES}
                | {"python": platform.python_version()},
                "host": {"name": socket.gethostname(), "cores": os.cpu_count()},
            },
        )

    def add_epoch(self, row: Mapping[str, float | str]) -> None:
        """Add a row to history.csv; the columns are the same every time."""
        path = self.path / "history.csv"
        fresh = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.writer(file)
            if fresh:
                writer.writerow(row)
            writer.writerow(row.values())

    def write_result(self, result: dict[str, Any]) -> None:
        """Write result.json."""
        self._write_json("result.json", result)

    @property
    def weights(self) -> Path:
        return self.path / "model.safetensors"

    def _write_json(self, name: str, value: dict[str, Any]) -> None:
        path = self.path / name
        beside = path.with_name(name + ".partial")
        beside.write_text(json.dumps(_without_nan(value), indent=2, allow_nan=False) + "\n")
        beside.replace(path)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(
            f"{folder}: cannot be made ({error.strerror}); name another folder with --output"
        ) from error
    return folder


def _without_nan(value: Any) -> Any:
    """The value with nothing in place of numbers that JSON has not."""
    if isinstance(value, dict):
        return {name: _without_nan(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_writable(path: Path | None) -> None:
    """Raise before long work rather than after it, if what comes of it cannot be written there."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise UsageError(f"{path}: name a file in a folder that exists")


def read_result(run: Path) -> dict[str, Any]:
    """What result.json of a finished run says."""
    return _read_json(run, "result.json")


def has_result(run: Path) -> bool:
    """Whether a run has come to its result; one that failed in its last test has weights alone."""
    return (run / "result.json").exists()


def check_classes(run: Path, trained: Sequence[str], *, there: Sequence[str]) -> None:
    """Refuse data that has classes which a run was not trained on."""
    strangers = [name for name in there if name not in set(trained)]
    if strangers:
        raise RunError(
            f"{run}: was trained on the classes {', '.join(trained)}, and the data has others: "
            f"{', '.join(strangers)}: name data of the same classes with --data-dir"
        )


def read_run_settings(run: Path) -> Settings:
    """The settings that a run was started with."""
    values = _read_json(run, "config.json")
    settings = values.get("settings")
    if not isinstance(settings, dict):
        raise RunError(f"{run / 'config.json'}: has no settings")
    return settings_from(settings, source=str(run / "config.json"))


def _read_json(run: Path, name: str) -> dict[str, Any]:
    path = run / name
    if not run.is_dir():
        raise RunError(f"{run}: no such run folder")
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise RunError(f"{run}: has no {name}; is it the folder of a phalanx run?") from error
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise RunError(f"{path}: not a JSON object")
    return value
