"""What a run wrote down about its samples, so that others are read as they were. Without torch.

It is in result.json, and until that is there in config.json. Runs of older versions say less.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.data.tables.form import TableForm, form_from
from phalanx.data.targets.tasks import CLASSIFICATION
from phalanx.errors import RunError
from phalanx.runs.folder import has_config, has_result, read_config, read_result
from phalanx.runs.result import check_result


@dataclass(frozen=True)
class Record:
    """The run's classes, the shape of a sample that its model takes, and how that is made.

    `inputs` are as `input_values` wrote them; `data` is the path that the samples were read from.
    """

    run: Path
    classes: tuple[str, ...] | None = None
    input_shape: tuple[int, ...] | None = None
    inputs: Mapping[str, Any] | None = None
    table: TableForm | None = None
    data: Path | None = None
    #: What targets are for, and the mean and deviation that they were standardised by, if so.
    task: str = CLASSIFICATION
    targets: Mapping[str, Any] | None = None


def read_record(run: Path) -> Record:
    """What the run at a path says."""
    said, where = _said(run)
    classes, shape, inputs = (said.get(one) for one in ("classes", "input_shape", "inputs"))
    try:
        table = None
        if inputs is not None and classes is not None and "table" in inputs:
            table = form_from(inputs["table"], classes=classes)
        return Record(
            run,
            None if classes is None else tuple(classes),
            None if shape is None else tuple(shape),
            inputs,
            table,
            None if said.get("data") is None else Path(said["data"]),
            said.get("task") or CLASSIFICATION,
            said.get("targets"),
        )
    except (KeyError, TypeError) as error:
        raise RunError(
            f"{where}: what it says about samples is damaged: {error!r}: train it again"
        ) from error


def _said(run: Path) -> tuple[Mapping[str, Any], Path]:
    """What is known about the samples, and the file that says so."""
    if has_result(run):
        return read_result(run), run / "result.json"
    where = run / "config.json"
    said = read_config(run).get("samples") if has_config(run) else None
    if not isinstance(said, dict):
        return {}, where
    check_result(said, where=where)
    return said, where
