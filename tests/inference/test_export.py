"""Exported models compute what the model does."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from phalanx import models
from phalanx.errors import UsageError
from phalanx.inference import export as exports
from phalanx.inference.export import ExportError, export
from phalanx.inference.export_formats import FORMATS, find_format

ONNX, TORCH = FORMATS["onnx"], FORMATS["torch"]

#: A model of each family, on samples as small as it takes. Exporters are slow: most are `long`.
FAMILIES: dict[str, tuple[int, ...]] = {
    "mlp": (1, 8, 8),
    "lenet5": (1, 32, 32),
    "resnet20": (3, 8, 8),
}
MORE_FAMILIES: dict[str, tuple[int, ...]] = {
    "logistic": (4,),
    "simplecnn": (1, 8, 8),
    "alexnet": (3, 64, 64),
    "vgg11": (3, 32, 32),
    "resnet18": (3, 32, 32),
    "densenet121": (3, 32, 32),
    "googlenet": (3, 32, 32),
    "inception-v3": (3, 75, 75),
    "mobilenet-v1": (3, 32, 32),
}


def build(name: str, shape: tuple[int, ...]) -> nn.Module:
    """A model whose running statistics are not those of a fresh one."""
    torch.manual_seed(3)
    model = models.build(name, input_shape=shape, classes=3)
    model.train()
    with torch.no_grad():
        model(torch.randn(4, *shape) + 1)
    return model


def broken(model: nn.Module, example: Tensor, path: Path, *, about: object) -> None:
    """Exports another model than the one that was given."""
    torch.export.save(exports._program(nn.Linear(4, 3), example), path)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *FAMILIES.items(),
        *(pytest.param(*one, marks=pytest.mark.long) for one in MORE_FAMILIES.items()),
    ],
)
def test_onnx(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    import onnxruntime

    model, path = build(name, shape), tmp_path / "model.onnx"
    worst = export(model, path, form=ONNX, input_shape=shape)
    assert worst <= 1e-4
    assert model.training
    assert list(tmp_path.iterdir()) == [path]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs = torch.randn(3, *shape)
    outputs = torch.from_numpy(session.run(["outputs"], {"inputs": inputs.numpy()})[0])
    torch.testing.assert_close(outputs, model.eval()(inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_torch(tmp_path: Path, dtype: torch.dtype) -> None:
    model, path = build("simplecnn", (1, 8, 8)).to(dtype).eval(), tmp_path / "model.pt2"
    assert export(model, path, form=TORCH, input_shape=(1, 8, 8)) == 0
    inputs = torch.randn(7, 1, 8, 8, dtype=dtype)
    assert torch.equal(torch.export.load(path).module()(inputs), model(inputs))


def test_a_file_that_differs_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "_write_torch", broken)
    with pytest.raises(ExportError, match=r"not written: its outputs differ .* more than 1e-04"):
        export(nn.Linear(4, 3), tmp_path / "model.pt2", form=TORCH, input_shape=(4,))
    assert list(tmp_path.iterdir()) == []


class Undecided(nn.Module):
    """What it computes depends on the values of its samples, which no exporter can follow."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs if inputs.sum().item() > 0 else -inputs


def test_a_model_that_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="torch cannot export this model: "):
        export(Undecided(), tmp_path / "model.pt2", form=TORCH, input_shape=(4,))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match=r"is no folder to write model\.pt2 to"):
        export(Undecided(), tmp_path / "no" / "model.pt2", form=TORCH, input_shape=(4,))


def test_formats_and_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="format 'onx'"):
        find_format("onx")
    monkeypatch.setattr("phalanx.inference.export_formats.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs onnx, .*pip install 'phalanx\[onnx\]'"):
        find_format("onnx")
    assert find_format("torch") is TORCH


def test_a_model_too_large_for_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "_LARGEST_ONNX", 40)
    with pytest.raises(UsageError, match="use --format torch"):
        export(nn.Linear(4, 3), tmp_path / "model.onnx", form=ONNX, input_shape=(4,))
