"""`--tensorboard` and `--mlflow`: a run and its continuation in one place, by rank 0."""

import json
from pathlib import Path

import pytest

from tests.commands import Phalanx
from tests.observe.trackers import readers

SMALL = ("--dataset", "iris", "--model", "mlp", "--hidden", "4", "--threads", "1")


@pytest.mark.long
def test_a_run_and_its_continuation(phalanx: Phalanx, tmp_path: Path) -> None:
    train = ("train", *SMALL, "--ranks", "2", "--output", "run", "--tensorboard", "--mlflow")
    begun = phalanx(*train, "--epochs", "2", "--validation-split", "0.2", "--metrics", "top-5")
    assert begun.returncode == 0, begun.stderr
    gone_on = phalanx("train", "--resume", "run", "--epochs", "3")
    assert gone_on.returncode == 0, gone_on.stderr
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    events, hparams = readers.tensorboard(tmp_path / "run" / "tensorboard")
    metrics, run = readers.mlflow(f"sqlite:///{tmp_path}/mlflow.db")
    assert set(events) - {"top-5/test"} <= set(metrics)
    for found in (events, metrics):
        assert [step for step, _ in found["loss/validation"]] == [1, 2, 3]
        assert [step for step, _ in found["top-5/train"]] == [1, 2, 3]
        assert [step for step, _ in found["loss/test"]] == [2, 3]
        assert abs(found["loss/test"][-1][1] - result["test"]["loss"]) < 1e-6
    assert len(hparams) == 3
    assert run.data.params["hidden"] == "(4,)" or run.data.params["hidden"] == "[4]"
    assert run.data.params["dataset"] == "iris"
    assert run.info.run_name == "run"
    assert run.data.tags["weights_sha256"] == result["weights_sha256"]
    assert run.data.tags["phalanx.run"] == str(tmp_path / "run")
