import gzip
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from phalanx.data import check, describe, load
from phalanx.errors import DataError

IdxFolder = Callable[..., Path]

BOTH = pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])


def idx(*shape: int, content: bytes) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in shape)
    return bytes([0, 0, 8, len(shape)]) + sizes + content


@BOTH
def test_four_files_make_a_data_set(name: str, idx_folder: IdxFolder) -> None:
    dataset = load(name, data_dir=idx_folder())
    assert dataset.name == name
    assert (len(dataset.train), len(dataset.test)) == (3, 2)
    assert dataset.input_shape == (1, 28, 28)
    assert dataset.train.inputs.dtype == torch.uint8
    assert dataset.train.targets.tolist() == [0, 9, 4]
    assert dataset.train.take(torch.tensor([0])).inputs.max() == pytest.approx(1.0)


def test_files_may_be_gzipped(idx_folder: IdxFolder) -> None:
    folder = idx_folder()
    for path in list(folder.iterdir()):
        packed = path.rename(path.with_name(path.name + ".gz"))
        packed.write_bytes(gzip.compress(packed.read_bytes()))
    assert len(load("mnist", data_dir=folder).train) == 3


@BOTH
def test_the_test_part_may_be_elsewhere(name: str, idx_folder: IdxFolder, tmp_path: Path) -> None:
    folder, other = idx_folder(), tmp_path / "other"
    other.mkdir()
    with pytest.raises(DataError, match=f"{name}: .*other lacks t10k-images-idx3-ubyte, t10k-lab"):
        check(name, folder, options={"test_dir": other})
    for path in list(folder.glob("t10k*")):
        path.rename(other / path.name)
    with pytest.raises(DataError, match="lacks t10k-images"):
        check(name, folder)
    check(name, folder, options={"test_dir": other})
    dataset = load(name, data_dir=folder, options={"test_dir": other})
    assert (len(dataset.train), len(dataset.test)) == (3, 2)


@pytest.mark.parametrize(
    ("changes", "named", "cause"),
    [
        (
            {"train_labels": idx(3, content=bytes([0, 10, 3]))},
            "train-labels-idx1-ubyte",
            "label 10 at position 1; labels go from 0 to 9",
        ),
        (
            {"t10k_labels": idx(1, content=bytes(1))},
            "t10k-labels-idx1-ubyte",
            "has 2 images",
        ),
        (
            {"t10k_images": idx(2, 8, 8, content=bytes(128))},
            "t10k-images-idx3-ubyte",
            "images of 8×8 pixels, not 28×28",
        ),
        ({"train_images": idx(0, 28, 28, content=b"")}, "train-images-idx3-ubyte", "no images"),
        ({"train_images": b"\x1f\x8b\x08\x00"}, "train-images-idx3-ubyte", "damaged gzip"),
        ({"t10k_labels": b"1,2\n"}, "t10k-labels-idx1-ubyte", "not an idx file"),
        ({"t10k_labels": None}, "t10k-labels-idx1-ubyte", "lacks"),
    ],
)
def test_bad_files_are_named(
    idx_folder: IdxFolder, changes: dict[str, bytes | None], named: str, cause: str
) -> None:
    with pytest.raises(DataError) as caught:
        load("mnist", data_dir=idx_folder(**changes))
    assert named in str(caught.value)
    assert cause in str(caught.value)


@BOTH
def test_the_real_data_sets_are_read_whole(name: str, real_data: Path) -> None:
    if not (real_data / name).is_dir():
        pytest.skip(f"{name} is not among the real data here")
    dataset = load(name, data_dir=real_data / name)
    assert (len(dataset.train), len(dataset.test)) == (60_000, 10_000)
    assert set(Counter(dataset.test.targets.tolist())) == set(range(10))
    (entry,) = (entry for entry in describe() if entry.name == name)
    assert (dataset.input_shape, len(dataset.classes)) == (entry.input_shape, entry.classes)
