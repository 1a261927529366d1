import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from phalanx.data import Entry, check, dataset_names, describe, load
from phalanx.errors import DataError, UsageError

IdxFolder = Callable[..., Path]


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PHALANX_DATA", raising=False)


def test_names() -> None:
    assert dataset_names() == ("iris", "digits", "mnist", "fashion-mnist")
    assert tuple(entry.name for entry in describe()) == dataset_names()
    assert all(entry.summary and "\n" not in entry.summary for entry in describe())


@pytest.mark.parametrize("entry", [e for e in describe() if e.embedded], ids=lambda e: e.name)
def test_entries_tell_what_is_loaded(entry: Entry) -> None:
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
        ("quux", r"unknown data set 'quux': There are: iris, digits, mnist, fashion-mnist"),
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
