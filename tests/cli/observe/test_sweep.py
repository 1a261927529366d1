"""`phalanx sweep` from end to end."""

import csv
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from phalanx.cli.app import app
from phalanx.errors import PhalanxError
from phalanx.runs.lock import Lock
from tests.commands import PATIENCE, Phalanx, end_of, environment, left_behind

#: Steps of a width take their time as long as there is a file that says so; one width cannot be.
NET = """
import time
from pathlib import Path
from torch import nn

class Net(nn.Sequential):
    def __init__(self, input_shape, classes, width: int = 8):
        if width == 13:
            raise RuntimeError("the seventh seal")
        super().__init__(nn.Linear(input_shape[0], width), nn.ReLU(), nn.Linear(width, classes))

    def forward(self, inputs):
        if self.training and Path(f"slow-{len(self[0].bias)}").exists():
            time.sleep(0.05)
        return super().forward(inputs)
"""
FLAGS = (
    *("--dataset", "synthetic", "--shape", "8", "--samples", "64", "--batch-size", "8"),
    *("--model", "net.py:Net", "--epochs", "20", "--output", "swept"),
)
VARIED = ("--vary", "width=8,16,13", "--vary", "seed=1")
FOLDERS = [f"0{n}-width={width},seed=1" for n, width in enumerate((8, 16, 13), start=1)]


class Swept:
    """One sweep in three turns, for all tests that only look at it.

    The first is killed in the first training, the second interrupted in the second one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "net.py").write_text(NET)
        for width in (8, 16):
            (folder / f"slow-{width}").touch()
        killed = self._start()
        self._wait_for(FOLDERS[0])
        killed.kill()
        killed.communicate()
        (folder / "slow-8").unlink()
        interrupted = self._start()
        self._wait_for(FOLDERS[1])
        interrupted.send_signal(signal.SIGINT)
        self.interrupted, self.told = end_of(interrupted)
        self.first_result = (self.folder / "swept" / FOLDERS[0] / "result.json").read_bytes()
        self.code = interrupted.returncode
        (folder / "slow-16").unlink()
        last = self._start("--resume", "swept", "--trust-code")
        self.output, self.errors = end_of(last)
        self.last_code = last.returncode

    def _start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "phalanx", "sweep", *(arguments or (*FLAGS, *VARIED))],
            cwd=self.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _wait_for(self, run: str) -> None:
        """Wait until a training is in its second epoch."""
        deadline = time.monotonic() + PATIENCE
        while not (self.folder / "swept" / run / "history.csv").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    return Swept(tmp_path_factory.mktemp("swept"))


def test_an_interrupted_sweep_says_what_is_left(swept: Swept) -> None:
    assert swept.code == 130
    told = swept.told
    assert "interrupted: finishing the step and writing a checkpoint" in told
    assert "interrupted: 2 trainings of 3 to do:\n  width=16 seed=1 (begun)\n  width=13" in told
    assert told.endswith("go on with: phalanx sweep --resume swept --trust-code\n")
    assert re.findall(r"to do", swept.interrupted) == ["to do", "to do"]
    assert "Traceback" not in told
    assert left_behind(swept.folder) == []


def test_what_is_done_is_kept_and_what_was_interrupted_goes_on(swept: Swept) -> None:
    lines = swept.errors.splitlines()
    assert lines[0] == "swept: 3 trainings, 1 done before and kept"
    assert lines[1] == "[2/3] width=16 seed=1: goes on …"
    results = [
        json.loads((swept.folder / "swept" / run / "result.json").read_text())
        for run in FOLDERS[:2]
    ]
    assert [one["turns"] for one in results] == [2, 2]
    assert [one["epochs"] for one in results] == [20, 20]
    first = swept.folder / "swept" / FOLDERS[0] / "result.json"
    assert first.read_bytes() == swept.first_result


def test_a_training_that_fails_has_a_row_that_says_so(swept: Swept) -> None:
    assert swept.last_code == 1
    assert "[3/3] width=13 seed=1: failed: RuntimeError: the seventh seal" in swept.errors
    assert f"all that it said: swept/{FOLDERS[2]}.log" in swept.output
    assert "to see it alone: phalanx train --dataset=synthetic" in swept.output
    assert re.search(r"^ *13 +1 +– +– +failed ", swept.output, re.M)


def test_tables_for_people_and_for_scripts(swept: Swept) -> None:
    rows = json.loads((swept.folder / "swept" / "table.json").read_text())["rows"]
    assert [(row["width"], row["seed"], row["status"]) for row in rows] == [
        (8, 1, "done"),
        (16, 1, "done"),
        (13, 1, "failed"),
    ]
    assert [row["run"] for row in rows] == FOLDERS
    result = json.loads((swept.folder / "swept" / FOLDERS[1] / "result.json").read_text())
    for name in ("seconds", "samples_per_second", "ranks", "threads"):
        assert rows[1][name] == result[name]
    assert rows[1]["test_accuracy"] == result["test"]["accuracy"]
    assert rows[1]["wall_seconds"] > rows[1]["seconds"]
    table = list(csv.DictReader((swept.folder / "swept" / "table.csv").read_text().splitlines()))
    assert [row["width"] for row in table] == ["8", "16", "13"]
    found = re.search(r"^ *16 +1 +314 +1 +([\d.]+) +[\d,]+ +([\d.]+)$", swept.output, re.M)
    assert found is not None, swept.output
    assert float(found[1]) == pytest.approx(result["seconds"], abs=0.006)
    assert float(found[2]) == pytest.approx(100 * result["test"]["accuracy"], abs=0.006)


def test_how_long_it_will_still_take(swept: Swept) -> None:
    assert re.search(r"^\[2/3\] .* samples/s; about \d+ s left$", swept.errors, re.M)


def test_the_report_and_the_command_for_the_plot(swept: Swept) -> None:
    assert "report: swept/report.html" in swept.output
    plot = "plot: phalanx plot swept --figure time-by-size --output swept/time-by-size.png"
    assert plot in swept.output
    page = (swept.folder / "swept" / "report.html").read_text()
    assert all(run in page for run in FOLDERS[:2])
    assert FOLDERS[2] not in page


@pytest.mark.long
def test_ranks_vary_and_some_are_left_out(phalanx: Phalanx, tmp_path: Path) -> None:
    quick = ("--epochs", 1, "--model", "mlp", "--hidden", 8)
    varied = ("--vary", "ranks=1,2", "--vary", "strategy=single,allreduce")
    done = phalanx("sweep", *quick, *varied, "--skip-refused")
    assert done.returncode == 0, done.stderr
    assert "runs/sweep-digits-mlp-1: 4 trainings, 1 of them refused and left out" in done.stderr
    rows = json.loads((tmp_path / "runs/sweep-digits-mlp-1/table.json").read_text())["rows"]
    assert [row["status"] for row in rows] == ["done", "done", "refused", "done"]
    assert [row["speed_up"] for row in rows][:3] == [1, 1, None]
    assert rows[3]["speed_up"] > 0
    assert "over the same on 1 rank." in done.stdout
    assert "--figure time-by-ranks" in done.stdout
    again = phalanx("sweep", *quick, *varied, "--skip-refused")
    assert "4 trainings, 1 of them refused and left out, 3 done before" in again.stderr
    assert again.stdout == done.stdout


def test_the_time_is_over(start: Callable[..., "subprocess.Popen[str]"], tmp_path: Path) -> None:
    process = start(
        *("sweep", "--vary", "seed=1,2", "--epochs", 1000000, "--time-limit", "1s"),
        *("--output", "a folder"),
    )
    _, errors = end_of(process)
    assert process.returncode == 124
    assert "the time is over: 2 trainings of 2 to do:" in errors
    assert errors.endswith("go on with: phalanx sweep --resume 'a folder'\n")
    assert left_behind(tmp_path) == []


def refused(*arguments: str) -> str:
    """What a sweep that is refused says, in this process."""
    with pytest.raises(PhalanxError) as error:
        CliRunner().invoke(app, ["sweep", *arguments], catch_exceptions=False)
    return str(error.value)


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        ([], "nothing varies: say --vary NAME=VALUE,VALUE"),
        (["--vary", "hiden=1,2"], "did you mean 'hidden'?"),
        (["--vary", "ranks=0,1"], "--vary ranks must be at least 1, not 0"),
        (["--vary", "output=a,b"], "unknown setting 'output'"),
        (["--vary", "ranks=1,2", "--ranks", "2"], "--ranks is given, and --vary varies it"),
        (["--vary", "ranks=1,2", "--epochs", "x"], "--epochs must be a whole number"),
        (["--vary", "strategy=server,central"], "1 of 2 combinations cannot be trained"),
        (["--vary", "ranks=1,2", "--time-limit", "soon"], "--time-limit soon: takes 30s"),
        (["--vary", "ranks=1,2", "--requeue"], "--requeue is for the jobs of Slurm"),
        (["--vary", "ranks=1,2", "--trust-code"], "say --resume, too"),
        (["--vary", "ranks=1,2", "--report", "no/where.html"], "name a file in a folder"),
        (["--vary", "ranks=1,2", "--config", "traced.toml"], "trace is of one training"),
        (["--resume", "nowhere"], "is it the folder of a phalanx sweep?"),
        (["--resume", "nowhere", "--epochs", "3"], "leave out --epochs"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_refused_before_anything_is_trained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], cause: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traced.toml").write_text('trace = "trace.json"\n')
    assert cause in refused(*arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["traced.toml"]


def test_code_that_a_folder_names_is_not_trusted(swept: Swept) -> None:
    said = refused("--resume", str(swept.folder / "swept"))
    assert "names code, net.py:Net" in said
    assert "--trust-code" in said


def test_two_sweeps_do_not_share_a_folder(swept: Swept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(swept.folder)
    lock = Lock(Path("swept"))
    try:
        assert "is training into this folder" in refused(*FLAGS, *VARIED)
    finally:
        lock.free()


def test_a_folder_of_another_sweep_is_refused(
    swept: Swept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(swept.folder)
    assert "has another sweep in it, which varies width, seed" in refused(
        *FLAGS, "--vary", "width=8"
    )


def test_no_sweep_inside_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    assert "without mpirun or srun" in refused("--vary", "seed=1,2")
