import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from phalanx.data import DatasetEntry, check, dataset_names, describe, load
from phalanx.errors import DataError, UsageError

IdxFolder = Callable[..., Path]


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PHALANX_DATA", raising=False)


def test_names() -> None:
    assert dataset_names() == (
        *("iris", "digits", "mnist", "fashion-mnist", "cifar10"),
        *("images", "csv", "mat", "npz", "synthetic", "text"),
    )
    assert tuple(entry.name for entry in describe()) == dataset_names()
    assert all(entry.summary and "\n" not in entry.summary for entry in describe())


@pytest.mark.parametrize(
    "entry", [e for e in describe() if e.embedded and e.files], ids=lambda e: e.name
)
def test_entries_tell_what_is_loaded(entry: DatasetEntry) -> None:
    dataset = load(entry.name)
    assert dataset.name == entry.name
    assert dataset.input_shape == entry.input_shape
    assert len(dataset.classes) == entry.classes


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("minst", r"unknown data set 'minst': did you mean 'mnist'"),
        ("Iris", "did you mean 'iris'"),
        ("fashion_mnist", "did you mean 'fashion-mnist'"),
        (
            "quux",
            r"unknown data set 'quux': There are: iris, digits, mnist, fashion-mnist, cifar10",
        ),
    ],
)
def test_an_unknown_name_meets_the_nearest(name: str, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        check(name, None)


def test_embedded_sets_take_no_folder(tmp_path: Path) -> None:
    check("iris", None)
    with pytest.raises(UsageError, match=r"iris ships with Phalanx.*drop --data-dir"):
        check("iris", tmp_path)


def test_without_a_folder_the_error_tells_how_to_give_one() -> None:
    with pytest.raises(DataError, match=r"mnist: .*train-images-idx3-ubyte.*--data-dir.*PHALANX"):
        check("mnist", None)


def test_a_folder_that_is_missing_or_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere does not exist; searched for train-images"):
        check("mnist", tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="file is not a folder"):
        check("mnist", tmp_path / "file")


def test_missing_files_are_listed(tmp_path: Path, idx_folder: IdxFolder) -> None:
    idx_folder(train_labels=None, t10k_images=None)
    with pytest.raises(DataError) as caught:
        check("mnist", tmp_path)
    assert f"{tmp_path} lacks train-labels-idx1-ubyte, t10k-images-idx3-ubyte" in str(caught.value)
    assert "--data-dir" in str(caught.value)
    assert "PHALANX_DATA" in str(caught.value)


def test_a_folder_in_place_of_a_file_is_missing(tmp_path: Path, idx_folder: IdxFolder) -> None:
    idx_folder(train_labels=None)
    (tmp_path / "train-labels-idx1-ubyte").mkdir()
    with pytest.raises(DataError, match="lacks train-labels"):
        check("mnist", tmp_path)


def test_the_environment_names_the_folder_above(
    idx_folder: IdxFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = list(idx_folder().iterdir())
    (tmp_path / "mnist").mkdir()
    for path in files:
        path.rename(tmp_path / "mnist" / path.name)
    monkeypatch.setenv("PHALANX_DATA", str(tmp_path))
    check("mnist", None)
    assert len(load("mnist").train) == 3
    with pytest.raises(DataError, match="fashion-mnist does not exist"):
        check("fashion-mnist", None)


def test_names_are_checked_without_torch() -> None:
    script = (
        "import phalanx.data, phalanx.models, sys\n"
        "phalanx.data.check('digits', None)\n"
        "phalanx.models.check('mlp', {'hidden': (8,)})\n"
        "assert 'torch' not in sys.modules\n"
        "assert 'numpy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("name", "options", "cause"),
    [
        ("iris", {"resize": "8x8"}, "--resize is for images, .* the samples of iris are 4"),
        ("iris", {"flip": True}, "--flip is for images"),
        ("digits", {"resize": "64"}, "--resize takes sizes such as 64x48 .*, not '64'"),
        ("digits", {"resize": "0x4"}, "--resize takes sizes"),
        ("digits", {"pool": "9x8"}, "--pool 9x8 makes images smaller, .* digits are 8×8"),
        ("digits", {"crop": 0}, "--crop must be at least 1, not 0"),
        ("digits", {"target": "x"}, "--target is no option of data set digits"),
        ("digits", {"test_split": 0.5}, "--test-split is no option of data set digits"),
        ("synthetic", {"shape": "3xx2"}, "--shape takes sizes such as 3x32x32, not '3xx2'"),
        ("synthetic", {"classes": 1}, "--classes must be at least 2, not 1"),
        ("synthetic", {"samples": 0}, "--samples must be at least 1, not 0"),
    ],
)
def test_options_that_cannot_work(name: str, options: dict[str, object], cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        check(name, options=options)


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_share_to_test_with_is_below_one(share: float, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--test-split must be from 0 to below 1"):
        check("csv", tmp_path, options={"test_split": share})


def test_a_step_fits_what_the_step_before_it_makes() -> None:
    check("digits", options={"resize": "28x28", "pool": "20x20"})


@pytest.mark.parametrize("name", ["cifar10", "images", "csv", "mat", "npz"])
def test_the_folder_of_own_data_is_asked_for(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"{name}: no folder given that holds .*--data-dir DIR"):
        check(name)
    with pytest.raises(DataError, match=f"{name}: .*nowhere does not exist; searched for"):
        check(name, tmp_path / "nowhere")
    with pytest.raises(DataError, match=f"(?s){name}: .*{tmp_path}"):
        check(name, tmp_path)


def test_entries_say_in_words_what_only_files_can_tell() -> None:
    for entry in describe():
        assert all(entry.input_shape)
        assert entry.file_list or entry.embedded


def test_own_data_is_checked_without_torch(tmp_path: Path) -> None:
    (tmp_path / "some.csv").write_text("x,kind\n1,a\n2,b\n")
    modules = sorted({entry.check.partition(":")[0] for entry in describe() if entry.check})
    script = (
        f"import {', '.join(modules)}, phalanx.data, pathlib, sys\n"
        "phalanx.data.check('csv', pathlib.Path('some.csv'), options={'normalise': True})\n"
        "phalanx.data.check('synthetic', options={'shape': '3x8x8', 'crop': 1})\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)
