"""`phalanx export` from end to end."""

import json
from pathlib import Path

import pytest

from phalanx.errors import UsageError
from phalanx.inference.export_formats import check_suffix, find_format
from tests.commands import Phalanx


def test_a_trained_model_without_its_data(phalanx: Phalanx, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("a,b,tint,kind\n" + "1,2,red,x\n3,4,blue,y\n" * 20)
    trained = phalanx(
        *("train", "--dataset", "csv", "--data-dir", "table.csv", "--normalise"),
        *("--epochs", 1, "--output", "run"),
    )
    assert trained.returncode == 0, trained.stderr
    table.unlink()
    done = phalanx("export", "run")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("run/model.onnx: largest difference from the model ")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    mean = ", ".join(f"{one:.6g}" for one in result["inputs"]["mean"])
    assert f"its inputs are stored values less {mean} over " in done.stdout
    assert "; columns: a, b, tint = blue | red\n" in done.stdout
    assert [one["name"] for one in result["inputs"]["table"]["columns"]] == ["a", "b", "tint"]
    assert result["inputs"]["mean"][:2] == pytest.approx([2, 3], abs=0.2)  # of the training samples
    check_model(tmp_path / "run" / "model.onnx", result["inputs"])

    (tmp_path / "folder").mkdir()
    for name, message in (
        ("folder", "folder: name a file in a folder that exists"),
        ("model.pt2", "model.pt2: .pt2 is for --format torch, and --format onnx is written"),
    ):
        refused = phalanx("export", "run", "--output", name)
        assert refused.returncode == 2
        assert message in refused.stderr


def check_model(file: Path, inputs_of_training: object) -> None:
    """What the model takes and gives, and what is written about it."""
    import onnxruntime

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (inputs,), (outputs,) = session.get_inputs(), session.get_outputs()
    assert (inputs.name, inputs.shape[1:]) == ("inputs", [4])
    assert (outputs.name, outputs.shape[1:]) == ("outputs", [2])
    assert isinstance(inputs.shape[0], str)  # a batch of any size
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["classes"]) == ["x", "y"]
    assert json.loads(about["inputs"]) == inputs_of_training


def test_names_that_promise_another_format() -> None:
    onnx = find_format("onnx")
    check_suffix(Path("model.ONNX"), onnx)
    with pytest.raises(UsageError, match=r"\.pt2 is for --format torch"):
        check_suffix(Path("model.pt2"), onnx)
    with pytest.raises(UsageError, match=r"--output model\.pt: .* name it \*\.onnx"):
        check_suffix(Path("model.pt"), onnx)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing",), "missing: no such run folder"),
        (("missing", "--format", "keras"), "unknown format 'keras': There are: onnx, torch"),
    ],
)
def test_refusals(phalanx: Phalanx, arguments: tuple[str, ...], message: str) -> None:
    done = phalanx("export", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
