"""A run's folder: what was asked for, how it went, what came out.

config.json        the settings, and the versions and machine that they ran with
history.csv        a row an epoch
networks.csv       a row an epoch and rank, where there are several
phases.csv         a row an epoch and rank: where the time went, if that was asked for
checkpoints/       where the training stands, to go on from
model.safetensors  the trained weights
result.json        time, throughput, test metrics and the weights' fingerprint
"""

import json
import math
import os
import platform
import socket
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from phalanx.comm.launch.process import processor_name
from phalanx.documents import parse_json, read_text
from phalanx.errors import RunError, UsageError
from phalanx.runs.epoch_table import EpochTable, Row
from phalanx.runs.lock import Lock
from phalanx.runs.result import check_result
from phalanx.settings.files import settings_from
from phalanx.settings.rules import check_output
from phalanx.settings.table import Settings
from phalanx.whole_files import whole_file

#: The file for the trained weights, and the folder for checkpoints, in a run's.
WEIGHTS, CHECKPOINTS = "model.safetensors", "checkpoints"
_PACKAGES = ("phalanx", "torch", "numpy", "mpi4py", "safetensors")


class RunFolder:
    """Written by rank 0 while a training goes on."""

    def __init__(self, path: Path) -> None:
        """The folder must be there, and is this training's alone until `close`."""
        self.path = path
        self._lock = Lock(path)
        self._history = EpochTable(path / "history.csv")
        self._networks = EpochTable(path / "networks.csv")
        self._phases = EpochTable(path / "phases.csv")

    @classmethod
    def create(cls, settings: Settings) -> "RunFolder":
        """The folder the user named, or the next free one under runs/."""
        if settings.output is not None:
            run = cls(made(settings.output))
            try:  # another training may have come and gone since the folder was looked at
                check_output(run.path)
            except UsageError:
                run.close()
                raise
            return run
        # A user's own is named by its file.
        dataset, model = (
            Path(name.partition(":")[0]).stem for name in (settings.dataset, settings.model)
        )
        base = made(Path("runs"))
        number = 1
        while True:
            path = base / f"{dataset}-{model}-{number}"
            try:
                path.mkdir()
            except FileExistsError:
                number += 1
            else:
                return cls(path)

    @classmethod
    def reopen(cls, path: Path) -> "RunFolder":
        """The folder of a training that is gone on with; made if it is not there."""
        return cls(made(path))

    def write_config(
        self, settings: Settings, *, ranks: int, threads: int, strategy: str, **more: Any
    ) -> None:
        """Write config.json: the settings in force, and what `more` there is to know of them."""
        used = settings.for_json() | {"ranks": ranks, "threads": threads, "strategy": strategy}
        self._write_json(
            "config.json",
            {
                "settings": used,
                **more,
                "versions": {name: version(name) for name in _PACKAGES}
                | {"python": platform.python_version()},
                "host": {
                    "name": socket.gethostname(),
                    "cores": os.cpu_count(),
                    "processor": processor_name(),
                    "system": f"{platform.system()} {platform.release()}",
                },
            },
        )

    def add_epoch(self, row: Row) -> None:
        """Add a row to history.csv, in place of those of this epoch and later ones."""
        self._history.put(int(row["epoch"]), [row])

    def add_networks(self, epoch: int, rows: Sequence[Row]) -> None:
        """Add what each rank's own samples came to in an epoch to networks.csv."""
        self._networks.put(epoch, rows)

    def add_phases(self, epoch: int, rows: Sequence[Row]) -> None:
        """Add where each rank's time went in an epoch to phases.csv."""
        self._phases.put(epoch, rows)

    def keep_epochs(self, history: Sequence[Row], *by_rank: Sequence[Row]) -> None:
        """Have these rows of earlier turns, and no others: of networks.csv and phases.csv, too."""
        tables = (self._history, self._networks, self._phases)
        for table, rows in zip(tables, (history, *by_rank), strict=False):
            table.write(rows)

    def write_result(self, result: dict[str, Any]) -> None:
        """Write result.json."""
        self._write_json("result.json", result)

    def close(self) -> None:
        """Leave the folder to others."""
        self._lock.free()

    @property
    def weights(self) -> Path:
        return self.path / WEIGHTS

    def _write_json(self, name: str, value: dict[str, Any]) -> None:
        path = self.path / name
        text = json.dumps(_without_nan(value), indent=2, allow_nan=False) + "\n"
        with whole_file(path) as beside:
            beside.write_text(text)


def made(folder: Path) -> Path:
    """A folder, made if it is not there."""
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
    if path is None:
        return
    try:
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise UsageError(f"{path}: name a file in a folder that exists")
        if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            raise UsageError(f"{path}: is not yours to write, or is on a disk that takes nothing")
    except OSError as error:  # a name that is too long, or a folder that is gone
        raise UsageError(f"{path}: cannot be a file: {error.strerror}") from error


def read_result(run: Path) -> dict[str, Any]:
    """What result.json of a finished run says."""
    result = _read_json(run, "result.json")
    check_result(result, where=run / "result.json")
    return result


def has_result(run: Path) -> bool:
    """Whether a run has come to its result; one that failed in its last test has weights alone."""
    return (run / "result.json").exists()


def has_config(run: Path) -> bool:
    """Whether a run has begun, and says with what settings."""
    return (run / "config.json").exists()


def has_checkpoint(run: Path) -> bool:
    """Whether a run has a checkpoint, whole or not."""
    return any((run / CHECKPOINTS).glob("step-*/checkpoint.json"))


def weights_of(run: Path) -> Path:
    """Where a run's weights are: in their file, or if it has none yet in the checkpoints."""
    weights = run / WEIGHTS
    return run / CHECKPOINTS if not weights.exists() and has_checkpoint(run) else weights


def unfinished_note(run: Path) -> str | None:
    """What to say about the weights of a run, if they are not those of its end."""
    if weights_of(run).name != CHECKPOINTS:
        return None
    return f"{run}: this training has not come to its end: its newest checkpoint is used"


def check_classes(run: Path, trained: Sequence[str], *, there: Sequence[str]) -> None:
    """Refuse data that has classes which a run was not trained on."""
    strangers = [name for name in there if name not in set(trained)]
    if strangers:
        raise RunError(
            f"{run}: was trained on the classes {', '.join(trained)}, and the data has others: "
            f"{', '.join(strangers)}: name data of the same classes with --data-dir"
        )


def read_config(run: Path) -> dict[str, Any]:
    """All that config.json says."""
    return _read_json(run, "config.json")


def read_run_settings(run: Path) -> Settings:
    """The settings that a run was started with."""
    settings = read_config(run).get("settings")
    if not isinstance(settings, dict):
        raise RunError(f"{run / 'config.json'}: has no settings")
    return settings_from(settings, source=str(run / "config.json"))


def read_surroundings(run: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The host that a run was on, and the versions that it had."""
    values = _read_json(run, "config.json")
    host, versions = (values.get(name) or {} for name in ("host", "versions"))
    if not isinstance(host, dict) or not isinstance(versions, dict):
        raise RunError(f"{run / 'config.json'}: host and versions are not what a run writes there")
    return host, {name: str(one) for name, one in versions.items()}


def _read_json(run: Path, name: str) -> dict[str, Any]:
    path = run / name
    if not run.is_dir():
        raise RunError(f"{run}: no such run folder")
    try:
        value = parse_json(read_text(path))
    except FileNotFoundError as error:
        if name != "config.json" and has_checkpoint(run):
            raise RunError(
                f"{run}: this training has not come to its end, and has no {name} yet: "
                f"`phalanx train --resume {run}` goes on with it"
            ) from error
        raise RunError(f"{run}: has no {name}; is it the folder of a phalanx run?") from error
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or error
        raise RunError(f"{path}: cannot be read: {cause}") from error
    if not isinstance(value, dict):
        raise RunError(f"{path}: not a JSON object")
    return value
