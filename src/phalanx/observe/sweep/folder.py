"""A sweep's folder: what was asked for, what came of it, and a run's folder for each training.

sweep.json         what varies, and the settings of every training
table.json, .csv   a row a training, written anew after each
report.html        the same to look at, with the learning curves
NN-NAME=VALUE…/    a run's folder each, and beside it what the training has printed, as .log
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phalanx.documents import parse_json, read_text
from phalanx.errors import PhalanxError, RunError, UsageError
from phalanx.observe.sweep.combinations import Combination
from phalanx.observe.sweep.results import Outcome, plain
from phalanx.observe.table_files import write_csv, write_json
from phalanx.runs.writing import writing
from phalanx.settings.files import settings_from
from phalanx.settings.rules import check_output
from phalanx.settings.table import SETTINGS
from phalanx.wording import key

_ASKED, TABLE = "sweep.json", "table"
REPORT = "report.html"


def is_sweep(folder: Path) -> bool:
    """Whether a sweep has begun in a folder."""
    return (folder / _ASKED).exists()


def free_folder(name: str, combinations: Sequence[Combination]) -> Path:
    """The first folder runs/NAME-N that is this sweep's already, or that is not there yet."""
    number = 1
    while True:
        folder = Path("runs") / f"{name}-{number}"
        if not folder.exists():
            return folder
        if is_sweep(folder) and difference(combinations, read_asked(folder)) is None:
            return folder
        number += 1


def check_folder(folder: Path, combinations: Sequence[Combination]) -> None:
    """Raise if a folder has something in it that is not of this sweep."""
    if not folder.exists():
        return
    if not is_sweep(folder):
        check_output(folder)
        return
    differs = difference(combinations, read_asked(folder))
    if differs is not None:
        raise UsageError(
            f"--output {folder} has another sweep in it, {differs}: name a new folder, or go on "
            f"with that one by `phalanx sweep --resume {folder}`"
        )


def write_asked(folder: Path, combinations: Sequence[Combination], *, skip_refused: bool) -> None:
    """Write sweep.json, for who goes on with this sweep."""
    trainings = [
        {
            "folder": one.folder,
            "values": {name: _plain(value) for name, value in one.values.items()},
            "settings": one.settings.for_json(),
            "refusal": one.refusal,
        }
        for one in combinations
    ]
    with writing(folder / _ASKED):
        write_json(folder / _ASKED, {"skip_refused": skip_refused, "trainings": trainings})


def _plain(value: Any) -> Any:
    """A value as JSON knows it."""
    return str(value) if isinstance(value, Path) else value


def read_asked(folder: Path) -> list[Combination]:
    """The trainings of a sweep that has begun in a folder."""
    path = folder / _ASKED
    if not folder.is_dir() or not path.exists():
        raise RunError(f"{folder}: has no {_ASKED}; is it the folder of a phalanx sweep?")
    try:
        asked = parse_json(read_text(path))
        found = [_combination(number, one) for number, one in enumerate(asked["trainings"], 1)]
    except PhalanxError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise RunError(f"{path}: is not what a sweep writes there: {error!r}") from error
    return found


def skips_refused(folder: Path) -> bool:
    """Whether a sweep that has begun leaves out what cannot be trained."""
    return bool(parse_json(read_text(folder / _ASKED)).get("skip_refused"))


def _combination(number: int, saved: dict[str, Any]) -> Combination:
    values = {
        str(name): tuple(one) if isinstance(one, list) else one
        for name, one in saved["values"].items()
    }
    settings = settings_from(saved["settings"], source=f"{_ASKED}, training {number}")
    return Combination(number, values, settings, saved["refusal"])


def difference(ours: Sequence[Combination], theirs: Sequence[Combination]) -> str | None:
    """What tells two sweeps apart, for people; None if they are the same."""
    varied = [list(one[0].values) if one else [] for one in (ours, theirs)]
    if varied[0] != varied[1]:
        return f"which varies {', '.join(map(key, varied[1]))}"
    if [one.title for one in ours] != [one.title for one in theirs]:
        return f"with other values of {', '.join(map(key, varied[1]))}"
    for one, other in zip(ours, theirs, strict=True):
        if one.refusal is not None or other.refusal is not None:
            continue
        for name in (*SETTINGS, "own"):
            before, now = getattr(other.settings, name), getattr(one.settings, name)
            if before != now:
                return f"whose {key(name)} is {before}, not {now}"
    return None


def write_table(folder: Path, outcomes: Sequence[Outcome]) -> None:
    """Write table.json and table.csv."""
    rows = plain(outcomes)
    with writing(folder / TABLE):
        write_json(folder / f"{TABLE}.json", {"rows": rows})
        write_csv(folder / f"{TABLE}.csv", rows)


def wall_seconds(folder: Path) -> dict[str, float]:
    """What earlier turns of a sweep have spent on each training, by the name of its folder."""
    try:
        rows = json.loads((folder / f"{TABLE}.json").read_text())["rows"]
        return {row["run"]: float(row["wall_seconds"]) for row in rows}
    except (OSError, ValueError, LookupError, TypeError):  # there is none yet, or not a whole one
        return {}
