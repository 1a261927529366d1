"""The example of the three-layer network, its baselines, and its images."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from examples.commands import Training, read_networks
from examples.iris.baselines import ThreeLayers, iris, logistic_regression, numpy_network
from examples.iris.run import curves
from phalanx import models
from phalanx.train.losses import make_loss
from tests.examples.conftest import Example


def test_the_numpy_network_is_the_translated_one() -> None:
    train, _ = iris()
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
        "test": [2.0, 2.0],
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
