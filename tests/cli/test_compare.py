"""`phalanx compare` from end to end."""

import csv
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from phalanx.cli.app import app
from phalanx.cli.flags.compare import Asked, with_comparison
from phalanx.comm.launch.process import available_cores
from phalanx.errors import PhalanxError
from phalanx.strategies.registry import STRATEGIES
from tests.commands import Phalanx, end_of, environment, left_behind

ROOT = Path(__file__).parents[2]
ARGUMENTS = ("--strategies", "single,allreduce,central", "--ranks", "2", "--dataset", "digits")
QUICK = ("--epochs", "1", "--model", "mlp")
FILES = ("--output", "kept", "--json", "table.json", "--csv", "table.csv", "--report", "page.html")


class Compared:
    """One comparison, for all tests that only look at it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done = subprocess.run(
            [sys.executable, "-m", "phalanx", "compare", *ARGUMENTS, *QUICK, *FILES],
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def runs(self) -> list[Path]:
        return sorted(path for path in (self.folder / "kept").iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    return Compared(tmp_path_factory.mktemp("compared"))


def baselines() -> int:
    return 2 if available_cores() > 1 else 1


def test_a_table_of_strategies(compared: Compared) -> None:
    done = compared.done
    assert done.returncode == 0, done.stderr
    assert "mlp on digits: 1 epoch, 64 samples a step, seed 0" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if "×" in line]
    assert [row[0] for row in rows] == ["single"] * baselines() + ["allreduce", "central"]
    assert rows[0][1:4] == ["1", "1", "1"]
    assert rows[-1][1:3] == ["2", "2"]
    assert rows[0][6] == "1.00×"
    assert "over single with 1 thread" in done.stdout


def test_progress_is_told_apart_from_the_table(compared: Compared) -> None:
    lines = compared.done.stderr.splitlines()
    assert lines[0] == f"[1/{2 + baselines()}] single, 1 thread: training …"
    assert lines[1].startswith(f"[1/{2 + baselines()}] single, 1 thread: ")
    assert lines[1].endswith(" samples/s")
    assert len(lines) == 2 * (2 + baselines())


def test_runs_are_kept(compared: Compared) -> None:
    names = [run.name for run in compared.runs]
    assert names[0] == "01-single-1-thread"
    assert [name[3:] for name in names[-2:]] == ["allreduce", "central"]
    settings = [json.loads((run / "config.json").read_text())["settings"] for run in compared.runs]
    assert {one["seed"] for one in settings} == {0}
    assert {one["batch_size"] for one in settings} == {64}


def test_tables_for_scripts(compared: Compared) -> None:
    table = json.loads((compared.folder / "table.json").read_text())
    assert table["settings"]["model"] == "mlp"
    single, *_, allreduce, central = table["rows"]
    assert single["speed_up"] == 1
    assert {row["status"] for row in table["rows"]} == {"done"}
    assert allreduce["bytes_per_step"] > central["bytes_per_step"]
    assert allreduce["test_accuracy"] == pytest.approx(single["test_accuracy"], abs=0.01)
    assert min(row["memory_bytes_per_rank"] for row in table["rows"]) > 1 << 20
    rows = list(csv.DictReader((compared.folder / "table.csv").read_text().splitlines()))
    assert [row["strategy"] for row in rows] == [row["strategy"] for row in table["rows"]]


def test_a_page_of_the_runs(compared: Compared) -> None:
    text = (compared.folder / "page.html").read_text()
    for run in compared.runs:
        assert f'"{run.name}"' in text


def test_finished_runs(compared: Compared, phalanx: Phalanx, tmp_path: Path) -> None:
    first, *_, last = compared.runs
    done = phalanx("compare", first, last, "--json", "finished.json", "--report", "page.html")
    assert done.returncode == 0, done.stderr
    assert "01-single-1-thread" in done.stdout
    assert "torch" in done.stdout
    assert "not a fair comparison" not in done.stdout
    assert last.name in (tmp_path / "page.html").read_text()
    rows = json.loads((tmp_path / "finished.json").read_text())["rows"]
    assert [row["strategy"] for row in rows] == ["single", "central"]


def test_unfair_comparisons_are_pointed_out(
    compared: Compared, phalanx: Phalanx, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for name in ("config.json", "result.json"):
        text = (compared.runs[0] / name).read_text()
        (other / name).write_text(text.replace('"epochs": 1', '"epochs": 9'))
    done = phalanx("compare", compared.runs[0], "other")
    assert f"not a fair comparison: epochs: 1 ({compared.runs[0]}); 9 (other)" in done.stdout


def test_a_strategy_that_fails_and_one_that_refuses(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from phalanx import Strategy\n"
        "class Mine(Strategy):\n"
        "    def bind(self, comm, task):\n"
        "        raise RuntimeError('the seventh seal')\n"
    )
    done = phalanx(
        *("compare", "--strategies", "server,mine.py:Mine,allreduce", "--ranks", 1),
        *(*QUICK, "--json", "table.json"),
    )
    assert done.returncode == 1, done.stderr
    rows = json.loads((tmp_path / "table.json").read_text())["rows"]
    assert [row["status"] for row in rows] == ["refused", "failed", "done"]
    assert rows[0]["short"] == "needs 2 ranks"
    assert "needs 2 ranks" in done.stdout
    assert "mine.py:Mine: RuntimeError: the seventh seal" in done.stdout
    assert "to see it alone: phalanx train" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        "mine.py",
        "table.json",
    ]


def test_a_signal_ends_the_training_and_shows_what_there_is(
    start: Callable[..., subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    process = start("compare", "--strategies", "allreduce", "--ranks", 1, "--epochs", 1000000)
    assert process.stderr is not None
    assert process.stderr.readline() == "[1/1] allreduce: training …\n"
    process.send_signal(signal.SIGINT)
    output, errors = end_of(process)
    assert process.returncode == 130
    assert "stopped" in output
    assert "Traceback" not in errors
    assert left_behind(tmp_path) == []
    assert list((tmp_path / "temporary").iterdir()) == []


def refused(*arguments: str) -> str:
    """What a comparison that is refused says, in this process."""
    with pytest.raises(PhalanxError) as error:
        CliRunner().invoke(app, ["compare", *arguments], catch_exceptions=False)
    return str(error.value)


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["--strategies", "alreduce"], "did you mean 'allreduce'?"),
        (["--strategies", "single,central", "--every", "4"], "--every is an option of local"),
        (["--repeats", "0"], "--repeats must be at least 1, not 0"),
        (["--devices", "abacus"], "unknown device 'abacus'"),
        (["--devices", "xpu"], "unknown device 'xpu'"),
        (["--json", "nowhere/table.json"], "name a file in a folder that exists"),
        (["nowhere"], "nowhere: no such run folder"),
        (["nowhere", "--epochs", "3"], "leave out --epochs, or the runs"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_refused_before_anything_is_trained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], cause: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cause in refused(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_strategy_gives_way_to_strategies() -> None:
    assert CliRunner().invoke(app, ["compare", "--strategy", "central"]).exit_code == 2


def test_no_comparison_inside_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    assert "without mpirun or srun" in refused()


@pytest.mark.parametrize(
    ("given", "model"),
    [
        ([], "simplecnn"),
        (["--dataset", "iris"], "mlp"),
        (["--hidden", "8"], "mlp"),
        (["--model", "resnet20"], "resnet20"),
        (["--config", "settings.toml"], "vgg16"),
    ],
)
def test_the_model_is_one_for_images_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: list[str], model: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settings.toml").write_text('model = "vgg16"\nstrategy = "central"\n')
    app, found = typer.Typer(), list[Asked]()
    app.command()(with_comparison(found.append))
    assert CliRunner().invoke(app, given).exit_code == 0
    assert found[0].settings.model == model
    assert found[0].strategies == tuple(STRATEGIES)


@pytest.mark.parametrize(
    ("given", "optimizer"),
    [
        ([], "adam"),
        (["--optimizer", "sgd"], "sgd"),
        (["--learning-rate", "0.1"], "adam"),
        (["--momentum", "0.9"], "sgd"),
        (["--config", str(ROOT / "examples" / "iris" / ".irisenv")], "sgd"),
    ],
)
def test_the_optimizer_is_adam_unless_told_otherwise(given: list[str], optimizer: str) -> None:
    app, found = typer.Typer(), list[Asked]()
    app.command()(with_comparison(found.append))
    assert CliRunner().invoke(app, given).exit_code == 0
    assert found[0].settings.optimizer == optimizer
