"""Rows by epoch, of a training that may have been gone back on."""

from pathlib import Path

import pytest

from phalanx.runs.epoch_table import EpochTable, read_rows
from phalanx.runs.folder import RunFolder
from phalanx.runs.written import WrittenRun


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.csv"


def test_an_epoch_is_there_once(path: Path) -> None:
    table = EpochTable(path)
    for epoch, loss in ((1, 4), (2, 3), (3, 2), (2, 5)):
        table.put(epoch, [{"epoch": epoch, "loss": loss}])
    assert lines(path) == ["epoch,loss", "1,4", "2,5"]
    EpochTable(path).put(2, [{"epoch": 2, "loss": 6}])  # another process
    EpochTable(path).put(3, [{"epoch": 3, "loss": 1}])
    assert lines(path) == ["epoch,loss", "1,4", "2,6", "3,1"]


def test_all_rows_of_an_epoch_are_replaced(path: Path) -> None:
    table = EpochTable(path)
    table.put(1, [{"epoch": 1, "rank": rank} for rank in range(2)])
    table.put(2, [{"epoch": 2, "rank": rank} for rank in range(2)])
    table.put(2, [{"epoch": 2, "rank": rank} for rank in range(3)])
    assert lines(path) == ["epoch,rank", "1,0", "1,1", "2,0", "2,1", "2,2"]


def test_other_columns_from_some_epoch_on(path: Path) -> None:
    """As with --profile in the second turn alone."""
    EpochTable(path).put(1, [{"epoch": 1, "loss": 4}])
    table = EpochTable(path)
    table.put(2, [{"epoch": 2, "loss": 3, "step_seconds": 0.5}])
    table.put(3, [{"epoch": 3, "loss": 2, "step_seconds": 0.25}])
    assert lines(path) == ["epoch,loss,step_seconds", "1,4,", "2,3,0.5", "3,2,0.25"]


@pytest.mark.parametrize("left", ["", "2", "2,0.", "2,0.5,1"])
def test_what_a_killed_training_left_of_a_row_is_none(path: Path, left: str) -> None:
    path.write_text(f"epoch,loss,accuracy\r\n1,4,0.5\r\n{left}")
    rows = read_rows(path)
    assert rows[:1] == [{"epoch": "1", "loss": "4", "accuracy": "0.5"}]
    EpochTable(path).put(2, [{"epoch": 2, "loss": 3, "accuracy": 0.75}])
    assert lines(path) == ["epoch,loss,accuracy", "1,4,0.5", "2,3,0.75"]


def test_a_run_goes_back_and_may_have_to_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of earlier turns go along to the other folder."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "elsewhere"))
    path = tmp_path / "run"
    path.mkdir()
    first = WrittenRun(RunFolder(path))
    for epoch in range(1, 5):
        first.add_epoch({"epoch": epoch, "loss": -epoch})
        first.add_networks(epoch, [{"epoch": epoch, "rank": 0}])
        first.add_phases(epoch, [{"epoch": epoch, "rank": 0, "load_seconds": 0.5}])
    first.close()

    second = WrittenRun(RunFolder(path))
    second.go_back(2)
    assert lines(path / "history.csv") == ["epoch,loss", "1,-1", "2,-2"]
    assert lines(path / "networks.csv") == ["epoch,rank", "1,0", "2,0"]
    assert lines(path / "phases.csv")[-1] == "2,0,0.5"
    path.rename(tmp_path / "gone")
    second.add_epoch({"epoch": 3, "loss": 7})
    assert second.is_elsewhere
    assert lines(second.path / "history.csv") == ["epoch,loss", "1,-1", "2,-2", "3,7"]
    second.close()


def test_a_run_goes_back_to_its_beginning(tmp_path: Path) -> None:
    run = WrittenRun(RunFolder(tmp_path))
    run.add_epoch({"epoch": 1, "loss": 2})
    run.go_back(0)
    assert not (tmp_path / "history.csv").exists()
    run.add_epoch({"epoch": 1, "loss": 3})
    assert lines(tmp_path / "history.csv") == ["epoch,loss", "1,3"]
    run.close()
