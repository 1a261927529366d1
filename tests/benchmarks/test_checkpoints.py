"""What the benchmark of checkpoints times and prints; that its numbers mean what they say."""

import json
from pathlib import Path

import pytest

from benchmarks.checkpoints.costs import Costs, checkpoints_table, measure_checkpoints, ways
from benchmarks.checkpoints.saving import Ours, Saver, make_workload, measure
from phalanx.checkpoints import latest, read_checkpoint
from phalanx.comm.base import Communicator


class Counting(Saver):
    """Does nothing, and keeps what it was asked for; a step takes a second, a checkpoint two."""

    rank = 0

    def __init__(self, folder: Path) -> None:
        self.newest_folder, self.step = folder, 0
        self.written: list[int] = []
        self.now = 0.0

    def train(self, steps: int, *, every: int) -> list[float]:
        times = []
        for _ in range(steps):
            self.step += 1
            self.now += 1.0
            times.append(self.now)
            if every and self.step % every == 0:
                self.written.append(self.step)
                self.now += 2.0
        return times

    def save(self) -> tuple[float, float]:
        self.step += 1
        return 0.5, 2.0

    @property
    def newest(self) -> Path:
        return self.newest_folder


def test_each_timed_stretch_has_the_checkpoints_that_its_name_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("12345")
    measure(Counting(tmp_path), 2)
    costs = Costs()
    costs.note([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    assert (set(costs.waits), set(costs.on_disk), costs.size) == ({0.5}, {2.0}, 5)
    assert costs.steps == {1: [(3.0, 1.0)] * 2, 10: [(1.2, 1.0)] * 2}


def test_slower_is_the_best_beside_the_best_and_the_median_of_neighbours() -> None:
    costs = Costs(steps={1: [(1.2, 1.0), (1.5, 1.25)], 10: [(1.1, 0.8)]})
    best, middle = costs.slowdown(1) or (0.0, 0.0)
    assert (round(best, 3), round(middle, 3)) == (0.5, 0.2)
    assert Costs().slowdown(1) is None


def test_the_table_says_what_went_wrong() -> None:
    costs = Costs([0.02, 0.01], [0.2, 0.1], 1234, {1: [(1.2, 1.0)]})
    text = checkpoints_table({"ours": costs, "another": "ended with code 1"})
    assert "| ours | 10 ms | 100 ms | 1,234 | +20.0% (median +20.0%) | – |" in text
    assert "| another | ended with code 1 |" in text


@pytest.mark.ranks(2)
def test_ours_trains_and_writes(comm: Communicator, tmp_path: Path) -> None:
    folder = comm.broadcast_object(tmp_path)
    ours = Ours(comm, make_workload(1, quick=True), folder)
    assert len(ours.train(9, every=0)) == 9
    assert latest(folder) is None
    waits, on_disk = ours.save()
    assert 0 < waits < on_disk
    assert latest(folder) == ours.newest == folder / "step-000000010"
    assert len(ours.train(10, every=10)) == 10
    assert read_checkpoint(ours.newest).values["position"]["step"] == 20


@pytest.mark.long
def test_torchs_own_still_writes() -> None:
    chosen = [way for way in ways(2) if way.name == "DDP, async_save, thread"]
    results = measure_checkpoints(chosen, rounds=1, seconds=60, say=print, quick=True)
    costs = results["DDP, async_save, thread"]
    assert isinstance(costs, Costs)
    assert len(costs.waits) == 5
    assert set(costs.steps) == {1, 10}
