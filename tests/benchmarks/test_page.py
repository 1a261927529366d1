"""A report in Markdown as a page: all its tables, with their numbers."""

from pathlib import Path

import pytest

from benchmarks.page import main, page_of
from phalanx.observe.report.document import Bars, Table

REPORTS = sorted((Path(__file__).parents[2] / "benchmarks" / "reports").glob("*.md"))
REPORT = """# Benchmarks of a day

`python -m benchmarks.run`: 2 ranks, 1.0 minutes.

| machine and versions |  |
| --- | ---: |
| processor | abacus |

## Training

Everybody trains the *same*
model.

### iris

mlp on 4.

|  | samples/s | ÷ DDP | of the limit |
| --- | ---: | ---: | ---: |
| DDP | 10,419 | 1.00 | 16% |
| Horovod | not installed | – | – |
| ours | 2,027,170 | 2.61 | 41% |

## Commands

```sh
# DDP
torchrun one
# ours
phalanx two
```
"""


def test_tables_numbers_and_commands() -> None:
    page = page_of(REPORT)
    assert page.title == "Benchmarks of a day"
    assert [section.heading for section in page.sections] == ["Machine", "Training", "Commands"]
    (machine,) = page.sections[0].blocks
    assert isinstance(machine, Table)
    assert machine.rows == [["processor", "abacus"]]
    *_, table, bars = page.sections[1].blocks
    assert isinstance(table, Table)
    assert table.rows == [
        ["DDP", 10419, "1.00", "16%"],
        ["Horovod", "not installed", None, None],
        ["ours", 2027170, "2.61", "41%"],
    ]
    assert [column.kind for column in table.columns] == ["text", "count", "number", "number"]
    assert isinstance(bars, Bars)
    assert (bars.names, bars.parts[0].values) == (("DDP", "ours"), (10419, 2027170))
    (commands,) = page.sections[2].blocks
    assert isinstance(commands, Table)
    assert commands.rows == [["DDP", "torchrun one"], ["ours", "phalanx two"]]


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: str(report.stem))
def test_every_report_there_is(report: Path, tmp_path: Path) -> None:
    (tmp_path / report.name).write_text(report.read_text())
    main([str(tmp_path / report.name)])
    assert 700_000 < (tmp_path / report.with_suffix(".html").name).stat().st_size < 2_000_000
