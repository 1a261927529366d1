import re
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from phalanx.data import check, load
from phalanx.data.batches import batches
from phalanx.errors import DataError, UsageError

IMAGES = np.arange(6 * 4, dtype=np.uint8).reshape(6, 2, 2)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def parts() -> dict[str, "np.ndarray[Any, Any]"]:
    return {"x_train": IMAGES, "y_train": LABELS, "x_test": IMAGES[:2], "y_test": LABELS[:2]}


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def archive_of(folder: Path, arrays: dict[str, Any], *, compressed: bool = False) -> Path:
    (np.savez_compressed if compressed else np.savez)(folder / "some.npz", **arrays)
    return folder / "some.npz"


def folder_of(folder: Path, arrays: dict[str, Any]) -> Path:
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


@pytest.mark.parametrize("compressed", [False, True])
def test_four_arrays_make_a_data_set(tmp_path: Path, compressed: bool) -> None:
    archive_of(tmp_path, parts(), compressed=compressed)
    check("npz", tmp_path)
    dataset = load("npz", data_dir=tmp_path)
    assert (len(dataset.train), len(dataset.test)) == (6, 2)
    assert dataset.classes == ("0", "1", "2")
    assert dataset.input_shape == (2, 2)
    taken = dataset.train.take(torch.tensor([5])).inputs
    torch.testing.assert_close(taken, torch.from_numpy(IMAGES[5:]) / 255)


@pytest.mark.parametrize("names", [("X", "y"), ("x", "y"), ("inputs", "targets")])
@pytest.mark.parametrize("as_folder", [False, True])
def test_two_arrays_are_parted(tmp_path: Path, names: tuple[str, str], as_folder: bool) -> None:
    arrays = {names[0]: IMAGES.astype(np.float32), names[1]: LABELS[:, None].astype(np.float64)}
    if as_folder:
        folder_of(tmp_path, arrays)
    else:
        archive_of(tmp_path, arrays)
    dataset = load("npz", data_dir=tmp_path, options={"test_split": 0.5})
    assert (len(dataset.train), len(dataset.test)) == (3, 3)
    samples = dataset.train.take(torch.arange(3))
    firsts = samples.inputs[:, 0, 0] / 4
    assert samples.targets.tolist() == [LABELS[int(first)] for first in firsts]


@pytest.mark.parametrize("dtype", ["u1", "<u2", "<u4", "<u8", "i1", ">i4", "<f2", ">f8", "?"])
def test_files_are_read_row_by_row_whatever_their_type(tmp_path: Path, dtype: str) -> None:
    folder_of(tmp_path, parts() | {"x_train": IMAGES.astype(dtype), "x_test": IMAGES.astype(dtype)})
    folder_of(tmp_path, {"y_test": LABELS})
    dataset = load("npz", data_dir=tmp_path)
    assert dataset.train.source is not None
    scale = 1 / 255 if dtype == "u1" else 1.0
    expected = torch.from_numpy(IMAGES[[4, 1]].astype(dtype).astype("f8")) * scale
    taken = dataset.train.take(torch.tensor([4, 1]), dtype=torch.float64).inputs
    torch.testing.assert_close(taken, expected)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"y_train": LABELS[:4]}, "x_train.* has 6 samples, .*y_train.* 4 targets"),
        ({"y_train": LABELS + 0.5}, "y_train.* holds 3 different numbers in 6 .*regression"),
        ({"y_train": np.array([0, 1, np.inf, 0, 1, 2])}, r"y_train.*: value inf at \[2\]"),
        ({"y_train": np.array([0, 1, np.nan, 0, 1, 2])}, r"y_train.*: value nan at \[2\]"),
        (
            {"y_train": np.eye(3)[LABELS] / 2},
            r"y_train.* holds numbers of shape \(6, 3\) that are 2 different ones: say --task reg",
        ),
        ({"y_train": np.full((6, 2), 0.5)}, "y_train.* that add up to 1 in each row: say --task"),
        ({"y_train": np.zeros((6, 2, 2))}, "y_train.*: shape .*; one class a sample is needed"),
        ({"y_train": np.array(["a", "b", "", "a", "b", "b"])}, "y_train.*: no class at position 2"),
        ({"y_train": np.array([b"\xff", *b"abcde"])}, "y_train.*: words that are not UTF-8"),
        ({"x_train": np.array(list("abcdef"))}, "x_train.*: holds <U1, not numbers"),
        ({"x_train": IMAGES.astype(complex)}, "x_train.*: holds complex128"),
        ({"x_test": IMAGES[:2, :, :1]}, "must be alike"),
        ({"x_train": IMAGES[:0], "y_train": LABELS[:0]}, "x_train.*: no samples"),
    ],
)
@pytest.mark.parametrize("as_folder", [False, True])
def test_arrays_that_are_no_data_set(
    tmp_path: Path, changes: dict[str, Any], cause: str, as_folder: bool
) -> None:
    arrays = parts() | changes
    if as_folder:
        folder_of(tmp_path, arrays)
    else:
        archive_of(tmp_path, arrays)
    with pytest.raises(DataError, match=cause):
        load("npz", data_dir=tmp_path)


@pytest.mark.parametrize("as_folder", [False, True])
@pytest.mark.parametrize(
    ("train", "test", "classes", "targets"),
    [
        (LABELS + 1, LABELS[:2] + 1, ("1", "2", "3"), ([0, 1, 2, 0, 1, 2], [0, 1])),
        (LABELS * 10.0 - 10, [10, -10], ("-10", "0", "10"), ([0, 1, 2, 0, 1, 2], [2, 0])),
        (LABELS[:, None] > 0, [[1], [0]], ("0", "1"), ([0, 1, 1, 0, 1, 1], [1, 0])),
        (list("catcat"), ["t", "a"], ("a", "c", "t"), ([1, 0, 2, 1, 0, 2], [2, 0])),
        (np.array(list("catcat"), "S"), ["t", "a"], ("a", "c", "t"), ([1, 0, 2] * 2, [2, 0])),
        (np.eye(4)[LABELS], np.eye(4, dtype="?")[[3, 0]], tuple("0123"), ([0, 1, 2] * 2, [3, 0])),
        (LABELS * 4, [9, 0], ("0", "4", "8", "9"), ([0, 1, 2] * 2, [3, 0])),
    ],
    ids=["from 1", "below 0", "booleans", "words", "bytes", "one-hot", "more in the test part"],
)
def test_classes_are_those_that_are_there(
    tmp_path: Path, train: Any, test: Any, classes: tuple[str, ...], targets: Any, as_folder: bool
) -> None:
    arrays = parts() | {"y_train": np.array(train), "y_test": np.array(test)}
    path = folder_of(tmp_path, arrays) if as_folder else archive_of(tmp_path, arrays)
    dataset = load("npz", data_dir=path)
    assert dataset.classes == classes
    assert (dataset.train.targets.tolist(), dataset.test.targets.tolist()) == targets


@pytest.mark.parametrize("repeats", [1, 2])
def test_hardly_a_number_twice_is_a_regression(tmp_path: Path, repeats: int) -> None:
    """A thousand classes are not too many, nor are more of them with several samples each."""
    labels = np.tile(np.arange(1001) * 1000, repeats)
    path = archive_of(tmp_path, {"X": np.zeros((len(labels), 2)), "y": labels})
    if repeats > 1:
        assert len(load("npz", data_dir=path).classes) == 1001
        return
    with pytest.raises(DataError, match=r"y holds 1,001 different whole .*: say --task class"):
        load("npz", data_dir=path)
    with pytest.raises(DataError, match=r"y has more than 1,000 classes .* --task regression"):
        load("npz", data_dir=path, options={"task": "classification"})
    assert load("npz", data_dir=path, options={"task": "regression"}).task == "regression"


@pytest.mark.parametrize("as_folder", [False, True])
def test_words_that_are_objects_have_a_way_out(tmp_path: Path, as_folder: bool) -> None:
    arrays = {"X": IMAGES, "y": np.array(list("catcat"), dtype=object)}
    path = folder_of(tmp_path, arrays) if as_folder else archive_of(tmp_path, arrays)
    with pytest.raises(DataError, match=r"y.*: save numbers, and words by astype\(str\)"):
        load("npz", data_dir=path)


def test_a_number_that_is_none_is_found_in_memory(tmp_path: Path) -> None:
    inputs = IMAGES.astype(np.float32)
    inputs[3, 1, 0] = np.inf
    np.savez(tmp_path / "some.npz", X=inputs, y=LABELS)
    with pytest.raises(DataError, match=r"some.npz: X: value inf at \[3, 1, 0\]"):
        load("npz", data_dir=tmp_path)


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<f2"])
def test_a_number_that_is_none_is_found_in_a_file_when_it_is_read(
    tmp_path: Path, dtype: str
) -> None:
    inputs = IMAGES.astype(dtype)
    inputs[3, 1, 0] = np.nan
    folder_of(tmp_path, {"X": inputs, "y": LABELS})
    train = load("npz", data_dir=tmp_path, options={"test_split": 0}).train
    assert len(train.take(torch.tensor([0, 5])).inputs) == 2
    with pytest.raises(DataError, match=r"X.npy: value nan in sample 3; only finite numbers"):
        train.take(torch.tensor([5, 3, 0]))


@pytest.mark.parametrize("as_folder", [False, True])
@pytest.mark.parametrize("dtype", ["u1", "f4"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels_that_are_last_come_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, as_folder: bool, dtype: str, channels: int
) -> None:
    caplog.set_level("INFO")
    images = np.arange(6 * 5 * 7 * channels).reshape(6, 5, 7, channels).astype(dtype)
    arrays = {"x": images, "y": LABELS}
    path = folder_of(tmp_path, arrays) if as_folder else archive_of(tmp_path, arrays)
    train = load("npz", data_dir=path, options={"test_split": 0}).train
    assert (train.source is not None) == as_folder
    assert train.input_shape == train.stored_shape == (channels, 5, 7)
    stored = train.fetch(torch.tensor([4, 1]))
    assert stored.is_contiguous()
    assert np.array_equal(stored.numpy(), images[[4, 1]].transpose(0, 3, 1, 2))
    (record,) = caplog.records
    shapes = rf"shape \(5, 7, {channels}\), taken as \({channels}, 5, 7\): channels first"
    assert re.search(f"{path} are images of {shapes}", record.getMessage())


@pytest.mark.parametrize("as_folder", [False, True])
def test_grey_images_get_a_channel(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, as_folder: bool
) -> None:
    """As in the mnist.npz of Keras."""
    caplog.set_level("INFO")
    images = np.arange(6 * 5 * 7, dtype=np.uint8).reshape(6, 5, 7)
    arrays = {"x_train": images, "y_train": LABELS, "x_test": images[:2], "y_test": LABELS[:2]}
    path = folder_of(tmp_path, arrays) if as_folder else archive_of(tmp_path, arrays)
    dataset = load("npz", data_dir=path)
    assert dataset.input_shape == dataset.test.input_shape == (1, 5, 7)
    assert np.array_equal(dataset.train.fetch(torch.tensor([4])).numpy(), images[4:5, None])
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        *(((6, 3, 8, 8), "u1"), ((6, 1, 28, 3), "u1"), ((6, 5, 4, 3), "u1"), ((6, 8, 8, 2), "u1")),
        *(((6, 8, 8), "f4"), ((6, 3, 8), "u1"), ((6, 8), "u1"), ((6, 8, 8, 8, 3), "u1")),
    ],
)
@pytest.mark.parametrize("as_folder", [False, True])
def test_other_shapes_stay(
    tmp_path: Path, shape: tuple[int, ...], dtype: str, as_folder: bool
) -> None:
    arrays = {"x": np.zeros(shape, dtype), "y": LABELS}
    path = folder_of(tmp_path, arrays) if as_folder else archive_of(tmp_path, arrays)
    assert load("npz", data_dir=path).input_shape == shape[1:]


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    objects = np.array([{}, {}], dtype=object)
    np.savez(tmp_path / "some.npz", X=objects, y=np.array([0, 1]))
    with pytest.raises(DataError, match=r"some.npz: X: holds Python objects"):
        load("npz", data_dir=tmp_path)
    folder_of(tmp_path, {"X": objects, "y": np.array([0, 1])})
    with pytest.raises(DataError, match=r"X.npy: holds Python objects"):
        load("npz", data_dir=tmp_path)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    folder_of(tmp_path, parts())
    file = tmp_path / "x_train.npy"
    whole = file.read_bytes()
    for content, cause in (
        (b"", "not a .npy file"),
        (b"nothing of the kind", "not a .npy file"),
        (whole[:20], "not a .npy file"),
        (whole[:-5], "too short: 6 × 2 × 2 of uint8 are 152 bytes, 147 are there"),
    ):
        file.write_bytes(content)
        with pytest.raises(DataError, match=f"x_train.npy: {cause}"):
            check("npz", tmp_path)
    (tmp_path / "archive").mkdir()
    archive = archive_of(tmp_path / "archive", parts())
    whole = archive.read_bytes()
    archive.write_bytes(whole[:100])
    with pytest.raises(DataError, match=r"some.npz: not a readable .npz file"):
        check("npz", archive)
    place = whole.index(IMAGES.tobytes())
    archive.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
    with pytest.raises(DataError, match=r"some.npz: x_train cannot be read: Bad CRC-32"):
        load("npz", data_dir=archive)


def test_what_is_missing_and_what_is_there_are_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "some.npz", X=IMAGES, labels=LABELS)
    with pytest.raises(DataError, match=r"some.npz: holds X, labels; needed are x_train and"):
        check("npz", tmp_path)
    folder_of(tmp_path, parts())
    with pytest.raises(UsageError, match="test samples of its own: leave out --test-split"):
        check("npz", tmp_path, options={"test_split": 0.5})


def test_columns_first_is_refused_with_the_way_out(tmp_path: Path) -> None:
    folder_of(tmp_path, parts() | {"x_train": np.asfortranarray(IMAGES)})
    with pytest.raises(DataError, match=r"x_train.npy: stored by columns; .*ascontiguousarray"):
        load("npz", data_dir=tmp_path)


def test_files_larger_than_memory_take_no_memory(tmp_path: Path) -> None:
    """64 megabytes that are no more than a hole in the disk, read from end to end."""
    count = 1000
    shape = (count, 1 << 16)
    header: dict[str, Any] = {"descr": "|u1", "fortran_order": False, "shape": shape}
    with (tmp_path / "x_train.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + shape[0] * shape[1])
    folder_of(tmp_path, {"y_train": np.arange(count) % 2})
    dataset = load("npz", data_dir=tmp_path, options={"test_split": 0.1})
    before = resident_bytes()
    seen = 0
    for batch in batches(dataset.train, batch_size=5, seed=0, epoch=0):
        seen += len(batch.whole().targets)
    assert seen == 900
    assert resident_bytes() - before < 32 << 20
