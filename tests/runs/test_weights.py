"""Weights outside of a model."""

from pathlib import Path

import pytest
import torch
from torch import nn

from phalanx.errors import RunError
from phalanx.exchange.flat import FlatParameters
from phalanx.runs.weights import load_weights, save_weights, weights_digest


def make_model(seed: int = 0, width: int = 3) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(2, width), nn.BatchNorm1d(width))


def test_the_digest_sees_every_parameter_and_buffer() -> None:
    model = make_model()
    before = weights_digest(model)
    assert weights_digest(make_model()) == before
    model.get_buffer("1.running_mean").add_(1)
    changed = weights_digest(model)
    assert changed != before
    with torch.no_grad():
        model.get_parameter("0.bias").add_(1)
    assert weights_digest(model) not in (before, changed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_saved_and_loaded_again(tmp_path: Path, dtype: torch.dtype) -> None:
    model, other = make_model(0).to(dtype), make_model(1).to(dtype)
    FlatParameters(model)  # views of one tensor are saved as tensors of their own
    save_weights(model, tmp_path / "model.safetensors")
    load_weights(other, tmp_path / "model.safetensors")
    assert weights_digest(model) == weights_digest(other)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


def make_tied(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    return model


def test_tied_weights_are_saved(tmp_path: Path) -> None:
    model, tied, free = make_tied(0), make_tied(1), nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    save_weights(model, tmp_path / "model.safetensors")
    for other in (tied, free):
        assert weights_digest(other) != weights_digest(model)
        load_weights(other, tmp_path / "model.safetensors")
        assert weights_digest(other) == weights_digest(model)
    assert tied[1].weight is tied[0].weight


def test_bad_files_name_their_cause(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with pytest.raises(RunError, match="no such file"):
        load_weights(make_model(), path)
    path.write_bytes(b"not safetensors at all")
    with pytest.raises(RunError, match="not a readable safetensors file"):
        load_weights(make_model(), path)
    save_weights(make_model(width=5), path)
    with pytest.raises(RunError, match=r"(?s)of another model.*size mismatch for 0.weight"):
        load_weights(make_model(), path)
