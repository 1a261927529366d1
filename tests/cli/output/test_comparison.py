"""The rows of a comparison: read from runs, printed, and written for scripts."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from phalanx.cli.output.comparison import (
    caption,
    common_versions,
    comparison_table,
    machine_table,
    write_csv,
    write_json,
)
from phalanx.errors import RunError
from phalanx.observe.fairness import differences
from phalanx.observe.rows import FinishedRun, Row, read_finished, row_of_result, speed_ups
from phalanx.settings.table import Settings
from phalanx.wording import byte_size

RESULT = {
    "strategy": "allreduce",
    "ranks": 16,
    "training_ranks": 15,
    "threads": 128,
    "seconds": 1234.567,
    "samples_per_second": 123456.7,
    "test": {"accuracy": 1.0, "loss": 0.1, "count": 10},
    "bytes_per_step": 123456789.0,
    "memory_bytes_per_rank": 876 << 20,
}
ROWS = [
    row_of_result("a", RESULT | {"strategy": "single", "threads": 1, "samples_per_second": 1000.0}),
    row_of_result("b", RESULT | {"samples_per_second": 2500.0}),
    row_of_result("c", {"strategy": "local"}),
    Row(run="d", strategy="server", status="refused", ranks=1, short="needs 2 ranks", reason="…"),
]


def printed(what: RenderableType, width: int) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width).print(what)
    return [line.rstrip() for line in text.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 120, 160])
@pytest.mark.parametrize("numbered", [False, True])
def test_a_table_fits_a_terminal(width: int, numbered: bool) -> None:
    lines = printed(comparison_table(ROWS, title="Title", width=width, numbered=numbered), width)
    assert max(map(len, lines)) <= width
    values = ["allreduce", "16", "15", "128", "1234.57", "2,500", "2.50×", "100.00"]
    line = next(line for line in lines if "allreduce" in line)
    assert line.split() == ["2"] * numbered + [*values, "118", "MiB", "876", "MiB"]
    unknown = next(line for line in lines if "local" in line)
    assert unknown.split().count("–") == 9
    refused = " ".join(lines[next(i for i, line in enumerate(lines) if "server" in line) :])
    assert "needs" in refused
    header = " ".join(lines[:3])
    for name in ("strategy", "ranks", "train", "threads", "time", "samples", "speed-", "accu-"):
        assert name in header
    assert not any("…" in line for line in lines)


def test_a_device_has_a_column_where_there_is_more_than_the_processor() -> None:
    assert "device" not in " ".join(printed(comparison_table(ROWS, title="", width=120), 120))
    rows = [*ROWS, row_of_result("e", RESULT, device="cuda")]
    assert "device" in " ".join(printed(comparison_table(rows, title="", width=120), 120))


def test_speed_ups_are_over_single_with_one_thread() -> None:
    assert speed_ups(ROWS) == [1.0, 2.5, None, None]
    assert speed_ups(ROWS[1:]) == [None, None, None]
    assert "over single with 1 thread" in " ".join(caption(ROWS))
    assert "not among them" in " ".join(caption(ROWS[1:]))
    assert "the best of 3" in " ".join(caption(ROWS, repeats=3))


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0.0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (147008, "144 KiB"),
        (15.26 * 2**20, "15.3 MiB"),
        (5e18, "4547474 TiB"),
    ],
)
def test_sizes(count: float, text: str) -> None:
    assert byte_size(count) == text


def test_json_and_csv(tmp_path: Path) -> None:
    write_json(tmp_path / "table.json", ROWS, about={"notes": ["a note"]})
    write_csv(tmp_path / "table.csv", ROWS)
    read = json.loads((tmp_path / "table.json").read_text())
    assert read["notes"] == ["a note"]
    assert read["rows"][1]["speed_up"] == 2.5
    assert read["rows"][2]["bytes_per_step"] is None
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert [row["strategy"] for row in rows] == ["single", "allreduce", "local", "server"]
    assert rows[2]["bytes_per_step"] == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table.csv", "table.json"]


def finished(run: str, *, version: str = "1", cores: int = 2, **given: Any) -> FinishedRun:
    row = row_of_result(run, RESULT | {"ranks": given.get("ranks", 2)})
    host, versions = {"name": "here", "cores": cores}, {"torch": version, "numpy": "2"}
    return FinishedRun(row, Settings(**given), host=host, versions=versions)


def test_what_makes_runs_unlike_each_other() -> None:
    alike = [finished("a", strategy="central"), finished("b", strategy="local", every=4)]
    assert differences(alike) == []
    assert differences([finished("a", batch_size_per_rank=32), finished("b", batch_size=64)]) == []
    unlike = [
        finished("a", hidden=(8, 4), epochs=1),
        finished("b", seed=7, epochs=1, cores=4),
        finished("c", ranks=4, batch_size_per_rank=32, epochs=3, version="2"),
    ]
    assert differences(unlike) == [
        "hidden: 8,4 (a); default (b, c)",
        "epochs: 1 (a, b); 3 (c)",
        "seed: 0 (a, c); 7 (b)",
        "batch: 64 (a, b); 128 (c)",
        "host: here, 2 cores (a, c); here, 4 cores (b)",
        "version of torch: 1 (a, b); 2 (c)",
    ]


def test_versions_that_differ_have_columns() -> None:
    runs = [finished("a"), finished("b", version="2")]
    lines = " ".join(printed(machine_table(runs, width=80), 80))
    assert "torch" in lines
    assert "numpy" not in lines
    assert common_versions(runs) == "versions: numpy 2"


def test_folders_that_are_no_runs(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="nowhere"):
        read_finished(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"has no result\.json"):
        read_finished(tmp_path)
