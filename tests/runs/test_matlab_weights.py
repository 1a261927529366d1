"""Weights from MATLAB files in a model's linear layers."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import torch
from torch import nn

from phalanx import models
from phalanx.errors import RunError
from phalanx.runs.weights import load_weights


def matrices(*shapes: tuple[int, int]) -> dict[str, Any]:
    """Numbers that differ all, in Theta1, Theta2 and so on."""
    return {
        f"Theta{number}": np.arange(rows * columns, dtype=np.float64).reshape(rows, columns)
        + number
        for number, (rows, columns) in enumerate(shapes, start=1)
    }


def write(folder: Path, **content: Any) -> Path:
    path = folder / "weights.mat"
    scipy.io.savemat(path, content)
    return path


def mlp(*hidden: int) -> nn.Module:
    return models.build("mlp", input_shape=(4,), classes=2, options={"hidden": hidden})


def test_the_first_column_is_the_bias(tmp_path: Path) -> None:
    thetas = matrices((3, 5), (2, 4))
    model = mlp(3)
    load_weights(model, write(tmp_path, **thetas))
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    assert np.array_equal(state["1.bias"], thetas["Theta1"][:, 0])
    assert np.array_equal(state["1.weight"], thetas["Theta1"][:, 1:])
    assert np.array_equal(state["3.bias"], thetas["Theta2"][:, 0])
    assert np.array_equal(state["3.weight"], thetas["Theta2"][:, 1:])


def test_layers_are_in_the_order_of_the_numbers(tmp_path: Path) -> None:
    widths = [4, *[2] * 10]
    shapes = [(width, before + 1) for before, width in pairwise(widths)]
    thetas = matrices(*shapes)
    model = mlp(*[2] * 9)
    load_weights(model, write(tmp_path, **dict(reversed(thetas.items()))))
    linear = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    assert linear[9].bias.tolist() == thetas["Theta10"][:, 0].tolist()
    assert linear[1].bias.tolist() == thetas["Theta2"][:, 0].tolist()


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (
            matrices((3, 4), (2, 4)),
            "Theta1 is 3×4, and a layer of 4 inputs and 3 outputs needs 3×5",
        ),
        (
            matrices((3, 5), (2, 5)),
            "Theta2 is 2×5, and a layer of 3 inputs and 2 outputs needs 2×4",
        ),
        (matrices((3, 5)), "holds Theta1, and the model has 2 linear layers"),
        ({"X": np.ones((2, 2))}, "holds no Theta1, Theta2 and so on, but X"),
        ({"Theta1": "words", "Theta2": "words"}, "Theta1 is not a full matrix of numbers"),
        ({"Theta1": np.full((3, 5), np.nan)}, "not finite"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, content: dict[str, Any], cause: str) -> None:
    model = mlp(3)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(RunError) as error:
        load_weights(model, write(tmp_path, **content))
    assert cause in str(error.value)
    assert str(tmp_path) in str(error.value)
    after = list(model.parameters())
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_a_bad_file_and_another_kind_of_model(tmp_path: Path) -> None:
    path = tmp_path / "weights.mat"
    with pytest.raises(RunError, match="no such file"):
        load_weights(mlp(3), path)
    path.write_bytes(b"no MATLAB")
    with pytest.raises(RunError, match="not a readable MATLAB file"):
        load_weights(mlp(3), path)
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    with pytest.raises(RunError, match="linear layers with biases alone"):
        load_weights(model, write(tmp_path, **matrices((3, 5), (2, 4))))
