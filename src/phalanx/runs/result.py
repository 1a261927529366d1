"""Whether a result.json is as a training writes it, before anybody relies on that. Without torch.

What is missing is no damage: runs of older versions say less.
"""

import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from phalanx.data.targets.tasks import TASKS
from phalanx.errors import RunError

_MOST_VALUES = 1 << 40
_FIX = "the file is damaged, train it again"


def check_result(result: Mapping[str, Any], *, where: Path) -> None:
    """Raise a RunError for the first thing in a result that is not of the kind it should be."""
    _check(result, _RESULT, where=str(where))
    if (targets := result.get("targets")) is not None:
        _check(targets, _TARGETS, where=f"{where}: targets", needed=tuple(_TARGETS))
        if (
            len({len(targets["mean"]), len(targets["deviation"]), len(result.get("classes") or ())})
            > 1
        ):
            raise RunError(f"{where}: targets: a mean and a deviation each are needed: {_FIX}")
    if (inputs := result.get("inputs")) is None:
        return
    _check(inputs, _INPUTS, where=f"{where}: inputs")
    if len(inputs.get("mean") or ()) != len(inputs.get("deviation") or ()):
        raise RunError(f"{where}: inputs: a mean for each deviation is needed: {_FIX}")
    if (table := inputs.get("table")) is None:
        return
    _check(table, _TABLE, where=f"{where}: inputs: table", needed=tuple(_TABLE))
    _check(table, _MORE_OF_TABLE, where=f"{where}: inputs: table")
    for column in (*table["columns"], table["target"], *table.get("other_targets", ())):
        needed = ("categories",) if column.get("kind") == "categories" else ()
        place = f"{where}: inputs: table: a column"
        _check(column, _COLUMN, where=place, needed=("name", "place", *needed))


def _check(
    values: Mapping[str, Any],
    kinds: Mapping[str, "tuple[Callable[[Any], bool], str]"],
    *,
    where: str,
    needed: Collection[str] = (),
) -> None:
    for name, (fits, wanted) in kinds.items():
        value = values.get(name)
        if value is None and (name in needed):
            raise RunError(f"{where}: lacks '{name}': {_FIX}")
        if value is not None and not fits(value):
            raise RunError(f"{where}: '{name}' is not {wanted}: {_FIX}")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST_VALUES


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_shape(value: Any) -> bool:
    sizes = isinstance(value, list) and all(_is_count(one) and one > 0 for one in value)
    return sizes and math.prod(value) < _MOST_VALUES


def _is_list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _has_numbers(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(value.get(one) is None or _is_number(value[one]) for one in ("accuracy", "loss"))
        and all(isinstance(value.get(one) or {}, dict) for one in ("more", "by_output"))
        and (value.get("confusion") is None or _is_square(value["confusion"]))
    )


def _is_square(value: Any) -> bool:
    rows = isinstance(value, list) and all(map(_is_list_of(_is_count), value))
    return rows and all(len(row) == len(value) for row in value)


def _has_phases(value: Any) -> bool:
    """The seconds of each rank in every phase, and in all."""
    seconds, elapsed = (isinstance(value, dict) and value.get(k) for k in ("seconds", "elapsed"))
    if not isinstance(seconds, dict) or not _is_list_of(_is_number)(elapsed) or not elapsed:
        return False
    return all(
        _is_list_of(_is_number)(ranks) and len(ranks) == len(elapsed) for ranks in seconds.values()
    )


def _is_table(value: Any) -> bool:
    """A title, the names of columns and as many texts in every row."""
    texts = _is_list_of(_is_text)
    if not _is_object(value) or not _is_text(value.get("title")) or not texts(value.get("columns")):
        return False
    rows = value.get("rows")
    return isinstance(rows, list) and all(
        texts(row) and len(row) == len(value["columns"]) for row in rows
    )


def _has_baselines(value: Any) -> bool:
    """Metrics of each model, and perhaps why one is left out."""
    return isinstance(value, dict) and all(
        _is_text(one) if name == "left_out" else _has_numbers(one) for name, one in value.items()
    )


_NUMBER = (_is_number, "a number")
_COUNT = (_is_count, "a count")
_TEXT = (_is_text, "a text")
_NUMBERS = (_is_list_of(_is_number), "a list of numbers")
_TEXTS = (_is_list_of(_is_text), "a list of texts")
_SHAPE = (_is_shape, "the sizes of a sample")

_RESULT = {
    "strategy": _TEXT,
    "device": _TEXT,
    "ranks": _COUNT,
    "training_ranks": _COUNT,
    "threads": _COUNT,
    "epochs": _COUNT,
    "turns": _COUNT,
    "stopped": _TEXT,
    "seconds": _NUMBER,
    "samples_per_second": _NUMBER,
    "bytes_per_step": _NUMBER,
    "memory_bytes_per_rank": _NUMBER,
    "memory_bytes": _NUMBER,
    "memory_bytes_by_rank": _NUMBERS,
    "device_memory_bytes_by_rank": _NUMBERS,
    "parameters": _COUNT,
    "hosts": _TEXTS,
    "weights_sha256": _TEXT,
    "advice": _TEXT,
    "test": (_has_numbers, "what a test says"),
    "baselines": (_has_baselines, "what simple models come to"),
    "tables": (_is_list_of(_is_table), "a list of tables"),
    "phases": (_has_phases, "the seconds of ranks in phases"),
    "input_shape": _SHAPE,
    "classes": _TEXTS,
    "task": (lambda value: value in TASKS, "a task"),
    "targets": (_is_object, "what targets are made of"),
    "inputs": (_is_object, "what inputs are made of"),
    "data": _TEXT,
}
_TARGETS = {"mean": _NUMBERS, "deviation": _NUMBERS}
_INPUTS = {
    "shape": _SHAPE,
    "scale": _NUMBER,
    "resize": _TEXT,
    "pool": _TEXT,
    "mean": _NUMBERS,
    "deviation": _NUMBERS,
    "precision": (lambda value: value in ("float32", "float64"), "a type of numbers"),
    "own_steps": _TEXTS,
    "table": (_is_object, "what a table is like"),
}
_TABLE = {
    "width": _COUNT,
    "has_header": (lambda value: isinstance(value, bool), "true or false"),
    "columns": (_is_list_of(_is_object), "a list of columns"),
    "target": (_is_object, "a column"),
}
_MORE_OF_TABLE = {
    "task": (lambda value: value in TASKS, "a task"),
    "other_targets": (_is_list_of(_is_object), "a list of columns"),
    "separator": _TEXT,
}
_COLUMN = {
    "name": _TEXT,
    "place": _COUNT,
    "kind": _TEXT,
    "categories": _TEXTS,
}
