import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from phalanx.data import check, load
from phalanx.errors import DataError


def pixels(count: int, first: int = 0) -> "np.ndarray[Any, Any]":
    return (np.arange(count * 3072).reshape(count, 3072) * 7 + first).astype(np.uint8)


def record_file(path: Path, labels: list[int], first: int = 0) -> None:
    images = pixels(len(labels), first)
    path.write_bytes(
        b"".join(bytes([label]) + row.tobytes() for label, row in zip(labels, images, strict=True))
    )


def binary_folder(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    record_file(folder / "data_batch_1.bin", [0, 9, 4])
    record_file(folder / "data_batch_3.bin", [1, 2], first=50)
    record_file(folder / "test_batch.bin", [5], first=100)
    return folder


def write_pickle(path: Path, labels: list[int], first: int = 0, protocol: int = 2) -> None:
    content = {b"labels": labels, b"data": pixels(len(labels), first), b"batch_label": b"some"}
    path.write_bytes(pickle.dumps(content, protocol=protocol))


def python_folder(folder: Path, protocol: int = 2) -> Path:
    write_pickle(folder / "data_batch_1", [0, 9, 4], protocol=protocol)
    write_pickle(folder / "data_batch_3", [1, 2], first=50, protocol=protocol)
    write_pickle(folder / "test_batch", [5], first=100, protocol=protocol)
    return folder


def test_batches_that_are_there_make_a_data_set(tmp_path: Path) -> None:
    check("cifar10", binary_folder(tmp_path))
    dataset = load("cifar10", data_dir=tmp_path)
    assert (len(dataset.train), len(dataset.test)) == (5, 1)
    assert dataset.input_shape == (3, 32, 32)
    assert dataset.classes[9] == "truck"
    samples = dataset.train.take(torch.tensor([4, 0]))
    assert samples.targets.tolist() == [2, 0]
    expected = np.stack([pixels(2, 50)[1], pixels(3)[0]]).reshape(2, 3, 32, 32)
    torch.testing.assert_close(samples.inputs, torch.from_numpy(expected) / 255)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_both_versions_are_the_same_data_set(tmp_path: Path, protocol: int) -> None:
    binary = load("cifar10", data_dir=binary_folder(tmp_path / "cifar-10-batches-bin").parent)
    (tmp_path / "python").mkdir()
    unpickled = load("cifar10", data_dir=python_folder(tmp_path / "python", protocol))
    for one, other in ((binary.train, unpickled.train), (binary.test, unpickled.test)):
        assert len(one) == len(other)
        for mine, theirs in zip(
            one.take(torch.arange(len(one))), other.take(torch.arange(len(one))), strict=True
        ):
            assert torch.equal(mine, theirs)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (eval, ("__import__('os').mkdir('ran')",))


def a_pickle_that_calls(*code: str) -> bytes:
    """A pickle of protocol 0 that names something and calls it."""
    return "\n".join(code).encode()


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (pickle.dumps(Evil()), "names builtins.eval"),
        (pickle.dumps({b"data": Evil(), b"labels": [1]}), "names builtins.eval"),
        (a_pickle_that_calls("cos", "system", "(S'mkdir ran'", "tR."), "names (os|posix).system"),
        (a_pickle_that_calls("cnumpy", "load", "(S'x'", "tR."), "names numpy.load"),
        (a_pickle_that_calls("cnumpy", "dtype", "(S'O'", "tR."), "an array of b'O', not of bytes"),
        (a_pickle_that_calls("c_codecs", "encode", "(Vx", "S'zip'", "tR."), "than latin1"),
        (pickle.dumps({b"data": np.zeros((1, 5), np.uint8), b"labels": [1]}), "'data' is not"),
        (pickle.dumps({b"data": np.zeros((1, 3072)), b"labels": [1]}), "not of bytes"),
        (pickle.dumps({b"data": pixels(1), b"labels": "one"}), "'labels' is not a list"),
        (pickle.dumps({b"data": pixels(1), b"labels": [1, 2]}), "1 images and 2 labels"),
        (pickle.dumps({b"data": pixels(1), b"labels": [10]}), "label 10 at record 0"),
        (pickle.dumps([1, 2]), "'data' is not"),
        (pickle.dumps({b"data": pixels(1), b"labels": [1]})[:-50], "not a pickle of CIFAR-10"),
        (b"", "not a pickle of CIFAR-10"),
        (b"\xff\xfe rubbish", "not a pickle of CIFAR-10"),
    ],
)
def test_pickles_that_are_none_or_more_than_that_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, cause: str
) -> None:
    monkeypatch.chdir(tmp_path)
    python_folder(tmp_path)
    (tmp_path / "data_batch_3").write_bytes(content)
    with pytest.raises(DataError, match=f"(?s)data_batch_3: .*{cause}"):
        load("cifar10", data_dir=tmp_path)
    assert not (tmp_path / "ran").exists()


def test_an_array_may_not_claim_more_than_it_brings(tmp_path: Path) -> None:
    python_folder(tmp_path)
    whole = (tmp_path / "data_batch_3").read_bytes()
    # The shape (2, 3072) as (200, 3072).
    assert any(arg == 3072 for _, arg, _ in pickletools.genops(io.BytesIO(whole)))
    (tmp_path / "data_batch_3").write_bytes(whole.replace(b"K\x02M\x00\x0c", b"K\xc8M\x00\x0c"))
    with pytest.raises(DataError, match="data_batch_3: not a pickle of CIFAR-10"):
        load("cifar10", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "cause"),
    [
        ("data_batch_3.bin", bytes(3073 + 5), "3,078 bytes, which are not records of 3,073 bytes"),
        ("data_batch_3.bin", b"", "0 bytes, which"),
        ("test_batch.bin", bytes([10]) + bytes(3072), "label 10 at record 0; labels go from 0 to"),
    ],
)
def test_damaged_records_are_named(tmp_path: Path, name: str, content: bytes, cause: str) -> None:
    (binary_folder(tmp_path) / name).write_bytes(content)
    with pytest.raises(DataError, match=f"{name}: {cause}"):
        load("cifar10", data_dir=tmp_path)


def test_sizes_are_checked_before_anything_starts(tmp_path: Path) -> None:
    (binary_folder(tmp_path) / "data_batch_1.bin").write_bytes(bytes(10))
    with pytest.raises(DataError, match=r"data_batch_1.bin: 10 bytes"):
        check("cifar10", tmp_path)


def test_without_a_test_batch_files_are_missing(tmp_path: Path) -> None:
    (binary_folder(tmp_path) / "test_batch.bin").unlink()
    with pytest.raises(DataError, match=r"cifar10: .* lacks data_batch_1.bin .* and test_batch"):
        check("cifar10", tmp_path)


def test_the_test_batch_may_be_elsewhere(tmp_path: Path) -> None:
    folder, other = binary_folder(tmp_path), tmp_path / "other"
    whole = load("cifar10", data_dir=folder)
    other.mkdir()
    with pytest.raises(DataError, match=r"other lacks test_batch.bin, or"):
        check("cifar10", folder, options={"test_dir": other})
    (folder / "test_batch.bin").rename(other / "test_batch.bin")
    parted = load("cifar10", data_dir=folder, options={"test_dir": other})
    assert torch.equal(parted.test.targets, whole.test.targets)
    (other / "test_batch.bin").rename(folder / "test_batch.bin")
    for path in list(folder.glob("data_batch*")):
        path.unlink()
    with pytest.raises(DataError, match=r"lacks data_batch_1.bin \(to 5\), or"):
        check("cifar10", folder, options={"test_dir": folder})


def test_the_real_batches(real_data: Path) -> None:
    if not (real_data / "cifar10").is_dir():
        pytest.skip("cifar10 is not among the real data here")
    dataset = load("cifar10", data_dir=real_data / "cifar10")
    assert len(dataset.test) == 10_000
    assert torch.bincount(dataset.test.targets).tolist() == [1000] * 10
    # The first test image is a cat, the second a ship.
    assert [dataset.classes[label] for label in dataset.test.targets[:2].tolist()] == [
        "cat",
        "ship",
    ]
