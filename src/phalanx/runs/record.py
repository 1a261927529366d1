"""What a run wrote down about its samples, so that others are read as they were. Without torch.

Runs of older versions say less, and those that ended before their result say nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.data.tables.form import TableForm, form_from
from phalanx.errors import RunError
from phalanx.runs.folder import has_result, read_result


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


def read_record(run: Path) -> Record:
    """What the run at a path says."""
    if not has_result(run):
        return Record(run)
    result = read_result(run)
    classes, shape, inputs = (result.get(one) for one in ("classes", "input_shape", "inputs"))
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
            None if result.get("data") is None else Path(result["data"]),
        )
    except (KeyError, TypeError) as error:
        raise RunError(
            f"{run / 'result.json'}: what it says about samples is damaged: {error!r}: "
            "train it again"
        ) from error
