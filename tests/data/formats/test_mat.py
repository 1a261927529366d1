import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from phalanx.data import check, load
from phalanx.errors import DataError

scipy_io = pytest.importorskip("scipy.io")


def write(path: Path, **arrays: Any) -> Path:
    scipy_io.savemat(path, arrays)
    return path


def digits(path: Path, count: int = 20) -> Path:
    values = np.arange(count * 400, dtype=np.float64).reshape(count, 400) / 1000
    labels = (np.arange(count) % 10 + 1).astype(np.uint8)[:, None]
    return write(path, X=values, y=labels, extra="ignored")


def test_label_ten_is_the_last_class_and_the_digit_zero(tmp_path: Path) -> None:
    digits(tmp_path / "some.mat")
    check("mat", tmp_path)
    dataset = load("mat", data_dir=tmp_path, options={"test_split": 0})
    assert dataset.classes == ("1", "2", "3", "4", "5", "6", "7", "8", "9", "0")
    assert dataset.train.targets.tolist() == [*range(10), *range(10)]
    assert dataset.input_shape == (400,)
    row = dataset.train.take(torch.tensor([1]), dtype=torch.float64).inputs[0]
    assert row[:3].tolist() == [0.4, 0.401, 0.402]


def test_nothing_held_out_tests_on_the_training_samples(tmp_path: Path) -> None:
    file = digits(tmp_path / "some.mat")
    everything = load("mat", data_dir=file, options={"test_split": 0})
    assert everything.test is everything.train
    parted = load("mat", data_dir=file, options={"test_split": 0.25, "seed": 1})
    again = load("mat", data_dir=file, options={"test_split": 0.25, "seed": 1})
    other = load("mat", data_dir=file, options={"test_split": 0.25, "seed": 2})
    assert (len(parted.train), len(parted.test)) == (15, 5)
    assert torch.equal(parted.test.inputs, again.test.inputs)
    assert not torch.equal(parted.test.inputs, other.test.inputs)


def test_other_numbers_of_classes_keep_their_labels(tmp_path: Path) -> None:
    file = write(tmp_path / "some.mat", X=np.zeros((6, 2)), y=np.array([1, 2, 3, 1, 2, 3]))
    assert load("mat", data_dir=file).classes == ("1", "2", "3")


def test_bytes_are_pixels(tmp_path: Path) -> None:
    pixels = np.array([[0, 51], [102, 255]], dtype=np.uint8)
    file = write(tmp_path / "some.mat", X=pixels, y=np.array([1, 2]))
    train = load("mat", data_dir=file, options={"test_split": 0}).train
    taken = train.take(torch.arange(2)).inputs
    torch.testing.assert_close(taken, torch.tensor([[0, 0.2], [0.4, 1]]))


@pytest.mark.parametrize(
    ("arrays", "cause"),
    [
        ({"X": np.zeros((2, 3))}, "holds no y"),
        ({"a": np.zeros(1)}, "holds no X and no y"),
        ({"X": np.zeros((2, 3)), "y": np.array([1, 0])}, "y: 0 at position 1; .* from 1"),
        (
            {"X": np.zeros((2, 3)), "y": np.array([1.5, 1])},
            "y holds 2 different numbers .*regression",
        ),
        ({"X": np.zeros((2, 3)), "y": np.array([np.inf, 1])}, r"y: value inf at \[0, 0\]"),
        ({"X": np.zeros((2, 3)), "y": np.array([1, 100_001])}, "y has more than 100,000 classes"),
        ({"X": np.zeros((2, 3)), "y": np.array([1, 2, 3])}, "X has 2 samples, y 3 targets"),
        ({"X": np.array([[1.0, np.nan]]), "y": np.array([1])}, r"X: value nan at \[0, 1\]"),
        ({"X": np.zeros((2, 3, 4)), "y": np.array([1, 2])}, r"X has shape \(2, 3, 4\)"),
        ({"X": "words", "y": np.array([1])}, "X is not a full matrix of numbers: it is text"),
        ({"X": np.zeros((2, 2)), "y": np.eye(2)}, "y has a 1 in every row, .*--task multi-label"),
    ],
)
def test_contents_that_are_no_data_set(tmp_path: Path, arrays: dict[str, Any], cause: str) -> None:
    write(tmp_path / "some.mat", **arrays)
    with pytest.raises(DataError, match=f"some.mat: .*{cause}|some.mat: {cause}"):
        load("mat", data_dir=tmp_path)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    file = digits(tmp_path / "some.mat")
    whole = file.read_bytes()
    for content in (b"", b"nothing of the kind", whole[:200], whole[:150] + b"\xff" * 60):
        file.write_bytes(content)
        with pytest.raises(DataError, match=r"some.mat: (not a readable MATLAB|holds no)"):
            load("mat", data_dir=file)


def test_several_files_ask_for_one(tmp_path: Path) -> None:
    digits(tmp_path / "a.mat")
    digits(tmp_path / "b.mat")
    with pytest.raises(DataError, match=r"several files: a.mat, b.mat: give one as --data-dir"):
        check("mat", tmp_path)


def test_without_scipy_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digits(tmp_path / "some.mat")
    monkeypatch.setattr("phalanx.data.packages.find_spec", lambda name: None)
    for use in (check, lambda name, path: load(name, data_dir=path)):
        with pytest.raises(DataError, match=r"scipy, .*: pip install 'phalanx\[data\]'"):
            use("mat", tmp_path)


def test_published_weights_fit_the_order_of_the_file(real_data: Path) -> None:
    folder = real_data / "digits-mat"
    if not folder.is_dir():
        pytest.skip("digits-mat is not among the real data here")
    data_file = folder / "ex4data1.mat"
    dataset = load("mat", data_dir=data_file, options={"test_split": 0})
    weights = scipy_io.loadmat(folder / "ex4weights.mat")
    inputs, targets = dataset.train.take(torch.arange(5000), dtype=torch.float64)
    for name in ("Theta1", "Theta2"):
        theta = torch.from_numpy(weights[name])
        inputs = torch.sigmoid(inputs @ theta[:, 1:].T + theta[:, 0])
    assert (inputs.argmax(1) == targets).double().mean().item() == pytest.approx(0.9752)


def test_the_check_does_without_scipy_itself(tmp_path: Path) -> None:
    digits(tmp_path / "some.mat")
    before = set(sys.modules)
    check("mat", tmp_path)
    assert not {name for name in set(sys.modules) - before if name.startswith("torch")}


def test_values_and_labels(tmp_path: Path) -> None:
    inputs = np.arange(60.0).reshape(30, 2)
    values = inputs[:, :1] * 0.37
    file = write(tmp_path / "some.mat", X=inputs, y=values)
    dataset = load("mat", data_dir=file, options={"test_split": 0})
    assert (dataset.task, dataset.train.targets.shape) == ("regression", (30, 1))
    assert dataset.train.targets[3].tolist() == [pytest.approx(6 * 0.37)]
    flags = (inputs.astype(int) // 7 % 2).astype(float)
    file = write(tmp_path / "some.mat", X=inputs, y=flags)
    labels = load("mat", data_dir=file, options={"test_split": 0})
    assert (labels.task, labels.train.targets.tolist()) == ("multi-label", flags.tolist())
    whole = {"test_split": 0, "task": "regression"}
    file = write(tmp_path / "some.mat", X=inputs, y=np.arange(30.0) % 3 + 1)
    assert load("mat", data_dir=file, options=whole).task == "regression"
    assert load("mat", data_dir=file, options={"test_split": 0}).task == "classification"
