"""The rows of a comparison, from trainings just done or from the folders of finished runs."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from phalanx.observe.plan import CPU, Planned
from phalanx.runs.folder import read_result, read_run_settings, read_surroundings
from phalanx.settings.table import Settings

Status = Literal["done", "refused", "failed", "interrupted"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One training; None is what is not known."""

    run: str
    strategy: str
    status: Status = "done"
    device: str = CPU
    ranks: int | None = None
    #: Ranks that compute gradients; a server does not.
    training_ranks: int | None = None
    threads: int | None = None
    #: Of the model.
    parameters: int | None = None
    seconds: float | None = None
    samples_per_second: float | None = None
    test_accuracy: float | None = None
    #: What else a test is judged by, where targets are no classes: R², or F1 over all labels.
    test_r2: float | None = None
    test_f1: float | None = None
    #: What all ranks together hand to MPI in a step.
    bytes_per_step: float | None = None
    #: Of the rank that uses most.
    memory_bytes_per_rank: int | None = None
    #: Why there is no result: in a few words, and in full.
    short: str = ""
    reason: str = ""


def row_of_result(run: str, result: Mapping[str, Any], *, device: str = CPU) -> Row:
    """The row of a finished training, from what its result.json says."""
    test = result.get("test") or {}
    return Row(
        run=run,
        strategy=str(result.get("strategy", "?")),
        device=str(result.get("device") or device),
        ranks=result.get("ranks"),
        training_ranks=result.get("training_ranks"),
        threads=result.get("threads"),
        parameters=result.get("parameters"),
        seconds=result.get("seconds"),
        samples_per_second=result.get("samples_per_second"),
        test_accuracy=test.get("accuracy"),
        test_r2=_measured(test, "r2"),
        test_f1=_measured(test, "f1-micro"),
        bytes_per_step=result.get("bytes_per_step"),
        memory_bytes_per_rank=result.get("memory_bytes_per_rank"),
    )


def _measured(test: Mapping[str, Any], name: str) -> float | None:
    """A metric of a test whose targets are no classes."""
    more = test.get("more")
    value = more.get(name) if isinstance(more, dict) and test.get("accuracy") is None else None
    return value if isinstance(value, int | float) else None


def row_without_result(planned: Planned, status: Status, *, short: str, reason: str) -> Row:
    """The row of a training that came to nothing."""
    return Row(
        run=planned.title,
        strategy=planned.strategy,
        status=status,
        device=planned.device,
        ranks=planned.ranks,
        threads=planned.settings.threads,
        short=short,
        reason=reason,
    )


def is_baseline(row: Row) -> bool:
    """Whether others are compared with this one."""
    return row.strategy == "single" and row.threads == 1 and row.device == CPU


def speed_ups(rows: Sequence[Row]) -> list[float | None]:
    """How many times the samples a second of `single` with 1 thread; None without either."""
    rates = [row.samples_per_second for row in rows if is_baseline(row)]
    base = next((rate for rate in rates if rate), None)
    return [
        row.samples_per_second / base if base and row.samples_per_second else None for row in rows
    ]


def better(one: Row | None, other: Row) -> Row:
    """Of two repeats the faster; one that did not finish stays."""
    if one is None or other.status != "done":
        return other
    if one.status != "done":
        return one
    return other if (other.seconds or 0) < (one.seconds or 0) else one


@dataclass(frozen=True)
class FinishedRun:
    """A run's folder, read."""

    row: Row
    settings: Settings
    host: Mapping[str, Any]
    versions: Mapping[str, str]


def read_finished(run: Path) -> FinishedRun:
    """A finished run; RunError names a folder that is none."""
    result = read_result(run)
    settings = read_run_settings(run)
    host, versions = read_surroundings(run)
    return FinishedRun(row_of_result(str(run), result), settings, host, versions)


def plain(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows for a script: names and plain values."""
    faster = speed_ups(rows)
    return [
        dataclasses.asdict(row) | {"speed_up": speed}
        for row, speed in zip(rows, faster, strict=True)
    ]
