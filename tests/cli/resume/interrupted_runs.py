"""A finished training for tests that go on with it, and how to interrupt it."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.commands import environment
from tests.zygote import Zygote

#: Four epochs of six steps, with a checkpoint every third one, all of which stay.
TRAINING = (
    *("--dataset", "iris", "--hidden", 8, "--epochs", 4, "--batch-size", 16, "--shards", 3),
    *("--optimizer", "adam", "--schedule", "cosine", "--warm-up", 0.5, "--validation-split", 0.2),
    *("--evaluate-first", "--checkpoint-every", 3, "--keep", 99),
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, zygote: Zygote) -> Path:
    """A run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("finished")
    flags = [*map(str, TRAINING), "--output", "run"]
    done = zygote.run("phalanx", ["train", *flags], cwd=folder, env=environment())
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def interrupt(run: Path, *, after: int) -> None:
    """Leave what there would be of a training that was killed after so many steps."""
    for name in ("result.json", "model.safetensors"):
        (run / name).unlink(missing_ok=True)
    for path in (run / "checkpoints").iterdir():
        if int(path.name.split("-")[1]) > after:
            shutil.rmtree(path)


def result(run: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((run / "result.json").read_text())
    return values


def history(run: Path) -> list[dict[str, str]]:
    with (run / "history.csv").open(newline="") as file:
        return list(csv.DictReader(file))
