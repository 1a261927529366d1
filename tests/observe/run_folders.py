"""Folders of runs as trainings write them, with numbers that a test knows."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CLASSES = ["zero", "one", "two"]
CONFUSION = [[7, 1, 0], [0, 9, 2], [1, 0, 5]]
HISTORY = [
    {"epoch": 1, "loss": 1.25, "accuracy": 0.5, "validation_loss": 1.5, "validation_accuracy": 0.4},
    {"epoch": 2, "loss": 0.75, "accuracy": 0.7, "validation_loss": 0.9, "validation_accuracy": 0.6},
    {"epoch": 3, "loss": 0.5, "accuracy": 0.8, "validation_loss": 0.8, "validation_accuracy": 0.65},
]
PHASES = ("load", "forward", "backward", "exchange", "wait")


def write_run(
    folder: Path,
    *,
    ranks: int = 1,
    settings: dict[str, Any] | None = None,
    result: dict[str, Any] | None = None,
    finished: bool = True,
) -> Path:
    """A run that was profiled, and held samples out."""
    folder.mkdir(parents=True)
    strategy = "single" if ranks == 1 else "central"
    used = {"dataset": "digits", "model": "mlp", "epochs": 3, "batch_size": 64, "hidden": [30]}
    used |= {"strategy": strategy, "ranks": ranks, "threads": 1, "seed": 0} | (settings or {})
    config = {"settings": used, "versions": {"phalanx": "0.1.0", "torch": "2.13.0"}}
    config |= {"host": {"name": "here", "cores": 2, "processor": "abacus"}}
    (folder / "config.json").write_text(json.dumps(config))
    rows = [row | {"seconds": 2.0, "samples_per_second": 700.0 * ranks} for row in HISTORY]
    write_table(folder / "history.csv", rows)
    by_rank = [
        {
            "epoch": row["epoch"],
            "rank": rank,
            **{f"{name}_seconds": spent(name, rank) / 4 for name in PHASES},
        }
        for row in HISTORY
        for rank in range(ranks)
    ]
    write_table(folder / "phases.csv", by_rank)
    if finished:
        known = result_of(ranks) | {"strategy": strategy} | (result or {})
        (folder / "result.json").write_text(json.dumps(known))
    return folder


def spent(phase: str, rank: int) -> float:
    """The seconds of a rank in a phase: rank 1 computes longest, and rank 0 waits for it."""
    index = PHASES.index(phase)
    return 0.25 + index / 8 + (rank if phase == "backward" else 1 - rank if phase == "wait" else 0)


def result_of(ranks: int) -> dict[str, Any]:
    return {
        "device": "cpu",
        "ranks": ranks,
        "training_ranks": ranks,
        "threads": 1,
        "hosts": ["here"] * ranks,
        "parameters": 1234,
        "seconds": 6.5 / ranks,
        "samples_per_second": 650.0 * ranks**0.5,
        "epochs": 3,
        "turns": 1,
        "bytes_per_step": 4096.0 * (ranks - 1),
        "test": {"loss": 0.625, "accuracy": 0.84, "count": 25, "more": {}, "confusion": CONFUSION},
        "baselines": {"most frequent class": {"accuracy": 0.44, "more": {}}},
        "classes": CLASSES,
        "task": "classification",
        "tables": [],
        "phases": {
            "seconds": {name: [spent(name, rank) for rank in range(ranks)] for name in PHASES},
            "elapsed": [4.0] * ranks,
        },
        "memory_bytes": 300 * ranks << 20,
        "memory_bytes_per_rank": 301 << 20,
        "memory_bytes_by_rank": [(301 - rank) << 20 for rank in range(ranks)],
        "weights_sha256": "ab" * 32,
        "advice": None,
    }


def write_table(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
