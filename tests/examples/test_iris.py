"""The example of the three-layer network, its baselines, and its images."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from PIL import Image
from torch import nn

from examples.commands import Training, read_networks
from examples.iris import run
from examples.iris.baselines import ThreeLayers, iris, logistic_regression, numpy_network
from examples.iris.run import curves
from phalanx import models
from phalanx.cli.app import app
from phalanx.cli.flags.settings import settings_of
from phalanx.settings.rules import check_settings
from phalanx.settings.table import SETTINGS
from phalanx.train.losses import make_loss
from tests.examples.conftest import PROJECT as ROOT
from tests.examples.conftest import Example


def test_the_numpy_network_is_the_translated_one() -> None:
    train = iris().train
    network = ThreeLayers(4, 6, 5, 3)
    options = {
        "hidden": (6, 5),
        "activation": "sigmoid",
        "output_activation": "sigmoid",
        "standardise": True,
    }
    model = models.build("mlp", input_shape=(4,), classes=3, options=options).double()
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    with torch.no_grad():
        for layer, weights, biases in zip(layers, network.weights, network.biases, strict=True):
            layer.weight.copy_(torch.from_numpy(weights.T))
            layer.bias.copy_(torch.from_numpy(biases))
    outputs = model(torch.from_numpy(train.inputs))
    loss = make_loss("squared-error", "sum").function(outputs, torch.from_numpy(train.labels))
    loss.backward()  # type: ignore[no-untyped-call]
    np.testing.assert_allclose(network.forward(train.inputs), outputs.detach().numpy())
    for layer, (weights, biases) in zip(layers, network.gradients(train.wanted), strict=True):
        assert layer.weight.grad is not None
        assert layer.bias.grad is not None
        np.testing.assert_allclose(weights.T, layer.weight.grad.numpy(), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(biases, layer.bias.grad.numpy(), rtol=1e-6, atol=1e-9)


def test_the_baselines_learn() -> None:
    network = numpy_network((16, 8), epochs=20, batch_size=10, learning_rate=0.01)
    assert network.losses[-1] < network.losses[0] / 2
    assert network.accuracy >= 0.8
    assert logistic_regression(epochs=20, batch_size=10, learning_rate=0.01).accuracy >= 0.9


def test_the_baselines_have_the_flowers_that_a_training_has() -> None:
    parts = iris()
    assert [len(one.labels) for one in (parts.train, parts.validation, parts.test)] == [120, 15, 15]


THEIRS = "".join(
    f"{line}\n"
    for line in (
        *("inputdataDims=4", "inputLayerNeurons=30", "hiddenLayerNeurons=20"),
        *("outputLayerNeurons=3", "labelOnehotDims=3", "numEpochs=100"),
        *("learningRate=0.01", "batchSize=4"),
    )
)


def test_a_file_of_ones_own_in_one_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three ways of Phalanx, and NumPy, torch and a regression: only the former are pretended."""
    commands = pretend_training(monkeypatch)
    (tmp_path / ".irisenv").write_text(THEIRS)
    words = ("--config", tmp_path / ".irisenv", "--epochs", 2, "--output", tmp_path / "out")
    monkeypatch.setattr("sys.argv", ["run", *map(str, words)])
    run.main()
    rows = [line.split("│")[1:4] for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["single", "1", "1"],
        ["collective", "4", "16"],
        ["send/receive", "4", "12"],
        ["NumPy", "1", "1"],
        ["plain torch", "1", "1"],
        ["logistic regression", "1", "1"],
    ]
    assert all(command[1] == tmp_path / ".irisenv" for command in commands)
    pictures = sorted(path.name for path in (tmp_path / "out").glob("*.png"))
    assert pictures == ["allreduce.png", "comparison.png", "server.png", "single.png"]


def test_time_by_ranks_is_one_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend_training(monkeypatch)
    words = ("--by-ranks", 3, "--output", tmp_path / "out")
    monkeypatch.setattr("sys.argv", ["run", *map(str, words)])
    run.main()
    rows = [line.split("│")[1:4] for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["single", "1", "1"],
        ["collective", "1", "10"],
        ["collective", "2", "20"],
        ["collective", "3", "30"],
        ["send/receive", "2", "10"],
        ["send/receive", "3", "20"],
    ]
    with Image.open(tmp_path / "out" / "time-by-ranks.png") as image:
        assert image.width > 500


def pretend_training(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """Have the example train nothing; the commands that it would have run."""
    commands: list[list[Any]] = []

    def train(flags: list[Any], *, output: Path) -> Training:
        commands.append(flags)
        given = dict(zip(flags[::2], flags[1::2], strict=True))
        strategy, ranks = given["--strategy"], given["--ranks"]
        names = ("loss", "accuracy", "validation_loss", "validation_accuracy")
        history = {name: [1.0, 0.5] for name in names}
        result = {
            "strategy": strategy,
            "ranks": ranks,
            "training_ranks": ranks - (strategy == "server"),
            "seconds": 1.0,
            "test": {"accuracy": 1.0},
        }
        return Training(history, result, {})

    monkeypatch.setattr(run, "train", train)
    return commands


def test_the_job_of_slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The script is one that bash takes, and its command one that each of its 20 ranks takes."""
    script = ROOT / "examples" / "iris" / "job.sh"
    subprocess.run(["bash", "-n", script], check=True)
    lines = script.read_text().splitlines()
    assert [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")] == [
        *("--job-name mpi-go-neural-network", "-N 1", "-p fat", "-n 20", "--time=01:30:00"),
    ]
    launcher, words = lines[-1].split(" phalanx train ")
    assert launcher == "mpirun -n 20"
    (tmp_path / ".irisenv").write_text(THEIRS)
    monkeypatch.chdir(tmp_path)
    for name, value in (("SIZE", "20"), ("RANK", "0")):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", value)
    command: Any = typer.main.get_command(app)
    context = command.commands["train"].make_context("train", shlex.split(words))
    flags = {name: value for name, value in context.params.items() if name in SETTINGS}
    given = context.params
    settings = settings_of(flags, given["config"], context=context, entry=given["entry"])
    check_settings(settings, 20)
    assert (settings.strategy, settings.exchange) == ("server", "changes")
    assert settings.batch(20) == 19 * 4


@pytest.mark.long
def test_the_example_learns_in_every_mode_and_draws_it(example: Example, tmp_path: Path) -> None:
    shown = example("iris.run", "--ranks", 2, "--output", tmp_path / "out")
    for mode, ranks in (("single", 1), ("allreduce", 2), ("server", 2)):
        result = json.loads((tmp_path / "out" / mode / "result.json").read_text())
        assert (result["strategy"], result["ranks"]) == (mode, ranks)
        assert result["test"]["accuracy"] >= 0.93
    for mode, networks in (("single", []), ("allreduce", [0, 1]), ("server", [1])):
        found = read_networks(tmp_path / "out" / mode / "networks.csv")
        assert list(found) == networks
        assert all(len(one["loss"]) == 60 for one in found.values())
    for name in ("single", "allreduce", "server", "comparison"):
        with Image.open(tmp_path / "out" / f"{name}.png") as image:
            assert image.width > 1000
    for row in ("single", "collective", "send/receive", "NumPy", "plain torch", "logistic"):
        assert f"│ {row}" in shown


def test_every_network_has_its_curve() -> None:
    history = {"loss": [3.0, 1.0], "validation_loss": [2.0, 2.0]}
    networks = {0: {"loss": [4.0, 1.0]}, 2: {"loss": [2.0, 1.0]}}
    assert curves(Training(history, {}, networks), "loss") == {
        "network 0": [4.0, 1.0],
        "network 2": [2.0, 1.0],
        "validation": [2.0, 2.0],
    }
    assert curves(Training(history, {}, {}), "loss")["network 0"] == [3.0, 1.0]


@pytest.mark.long
def test_the_images_of_the_example(example: Example, tmp_path: Path) -> None:
    colours = {"buildings": 40, "forest": 110, "sea": 180}
    for part in ("seg_train", "seg_test"):
        for name, shade in colours.items():
            folder = tmp_path / "photos" / part / part / name
            folder.mkdir(parents=True)
            for number in range(6):
                pixels = np.full((50, 50, 3), shade + number, dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")
    shown = example(
        *("iris.images", tmp_path / "photos", "--output", tmp_path / "out"),
        *("--epochs", 1, "--ranks", 1, "--size", "16x16"),
    )
    assert "│ three sigmoid layers" in shown
    assert "│ residual network" in shown
