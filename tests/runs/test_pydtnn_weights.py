"""PyDTNN's files of weights, read and written."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from phalanx import models
from phalanx.errors import RunError
from phalanx.runs.pydtnn_weights import save_pydtnn_weights
from phalanx.runs.weights import load_weights

IMAGES = (1, 28, 28)


def network(name: str = "simplecnn") -> nn.Module:
    return models.build(f"pydtnn-{name}", input_shape=IMAGES, classes=10)


def arrays() -> dict[str, Any]:
    """As the first version of PyDTNN writes its simplecnn: a row of a matrix for each input."""
    shapes = {
        "1_Conv2D_weights": (4, 1, 3, 3),
        "1_Conv2D_biases": (4,),
        "3_Conv2D_weights": (8, 4, 3, 3),
        "3_Conv2D_biases": (8,),
        "6_FC_weights": (1152, 128),
        "6_FC_biases": (1, 128),
        "8_FC_weights": (128, 10),
        "8_FC_biases": (1, 10),
    }
    random = np.random.default_rng(7)
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def test_every_array_is_in_its_layer(tmp_path: Path) -> None:
    stored, model = arrays(), network()
    # Out of order, as a dictionary may be.
    np.savez_compressed(tmp_path / "weights.npz", **dict(reversed(stored.items())))
    load_weights(model, tmp_path / "weights.npz")
    own = {name: value.numpy() for name, value in model.state_dict().items()}
    assert np.array_equal(own["2.weight"], stored["3_Conv2D_weights"])
    assert np.array_equal(own["6.weight"], stored["6_FC_weights"].T)
    assert np.array_equal(own["8.bias"], stored["8_FC_biases"][0])


def test_written_as_pydtnn_names_them(tmp_path: Path) -> None:
    model = network()
    save_pydtnn_weights(model, tmp_path / "weights.npz", input_shape=IMAGES)
    with np.load(tmp_path / "weights.npz") as written:
        assert {name: written[name].shape for name in written.files} == {
            name: (array.shape[-1],) if "biases" in name else array.shape
            for name, array in arrays().items()
        }
    other = network()
    load_weights(other, tmp_path / "weights.npz")
    for name, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], value), name


def test_statistics_go_along(tmp_path: Path) -> None:
    model, other = network("vgg3dobn"), network("vgg3dobn")
    for one in model.buffers():
        one.fill_(3)
    save_pydtnn_weights(model, tmp_path / "weights.npz", input_shape=IMAGES)
    load_weights(other, tmp_path / "weights.npz")
    means = [one for name, one in other.named_buffers() if name.endswith("running_mean")]
    assert means
    assert all((one == 3).all() for one in means)
    with np.load(tmp_path / "weights.npz") as written:
        early = {name: written[name] for name in written.files if "running" not in name}
    np.savez(tmp_path / "early.npz", **early)
    load_weights(other, tmp_path / "early.npz")


def _without(name: str) -> dict[str, Any]:
    return {one: array for one, array in arrays().items() if not one.startswith(name)}


@pytest.mark.parametrize(
    ("stored", "cause"),
    [
        (_without("8"), "holds weights of 3 layers, and the model has 4"),
        (_without("8_FC_biases"), "layer 8 has weight, and Linear takes bias, weight"),
        ({**arrays(), "6_FC_weights": np.zeros((128, 1152), np.float32)}, "6: its weight is 128"),
        ({**arrays(), "x": np.zeros(3)}, "'x' is no part of a layer, as 3_Conv2D_weights is"),
        ({**arrays(), "8_FC_biases": np.full(10, np.nan)}, "8_FC_biases is not an array of finite"),
        ({**arrays(), "8_FC_biases": np.zeros(10, np.int64)}, "8_FC_biases is not an array of"),
        ({}, "holds no weights"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, stored: dict[str, Any], cause: str) -> None:
    np.savez(tmp_path / "weights.npz", **stored)
    model = network()
    before = [one.clone() for one in model.parameters()]
    with pytest.raises(RunError, match=cause):
        load_weights(model, tmp_path / "weights.npz")
    for one, other in zip(model.parameters(), before, strict=True):
        assert torch.equal(one, other)


def test_what_is_pickled_is_not_read(tmp_path: Path) -> None:
    pickled = np.empty(10, dtype=object)
    np.savez(tmp_path / "weights.npz", **{**arrays(), "8_FC_biases": pickled})
    with pytest.raises(RunError, match="8_FC_biases"):
        load_weights(network(), tmp_path / "weights.npz")


def test_layers_that_pydtnn_has_not(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv1d(1, 2, 3))
    with pytest.raises(RunError, match="PyDTNN has no layer such as 0, a Conv1d"):
        save_pydtnn_weights(model, tmp_path / "weights.npz", input_shape=(1, 8))
