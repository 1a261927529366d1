"""Readers of arrays: npy, npz, mat, idx, gzipped files, and CIFAR-10 in its two versions."""

import gzip
import io
import pickle
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import torch

from phalanx.data import check, load
from phalanx.data.split import Dataset, Split
from tests.data.conftest import images, labels
from tests.fuzz.mutations import Seed

Array = np.ndarray[Any, Any]

INPUTS = (np.arange(60, dtype=np.float32).reshape(12, 5) - 7) / 8
PIXELS = (np.arange(12 * 6 * 6) * 7 % 256).astype(np.uint8).reshape(12, 6, 6)
CLASSES = np.arange(12) % 3


def whole(name: str, path: Path) -> Dataset:
    """A data set, checked and loaded as `phalanx train` does, and its samples in range."""
    check(name, path)
    dataset = load(name, data_dir=path)
    for split in (dataset.train, dataset.test):
        assert len(split) >= 1
        samples = split.take(torch.arange(len(split)))
        assert samples.inputs.shape == (len(split), *dataset.input_shape)
        assert samples.inputs.isfinite().all()
        assert samples.targets.min() >= 0
        assert samples.targets.max() < len(dataset.classes)
    return dataset


def same_values(dataset: Dataset, inputs: Array, targets: Array, *, first: int = 0) -> None:
    """The samples that another reader finds in the file, in any order."""
    splits = (dataset.train, dataset.test)
    values = np.concatenate([_values(split) for split in splits])
    assert np.array_equal(np.sort(values), np.sort(inputs.astype(np.float64).reshape(-1)))
    found = np.concatenate([split.targets.numpy() for split in splits])
    numbers = targets.reshape(-1).astype(np.int64)
    if targets.size > max(targets.shape):  # a column for each class
        numbers = targets.reshape(len(targets), -1).argmax(1)
    names = [dataset.classes[place] for place in found]
    same_numbers = np.array_equal(np.sort(found + first), np.sort(numbers))
    assert same_numbers or sorted(names) == sorted(map(str, numbers.tolist()))


def _values(split: Split) -> Array:
    stored = split.inputs if split.source is None else split.source.take(torch.arange(len(split)))
    return stored.numpy().astype(np.float64).reshape(-1)


def npy(array: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


class Npy:
    """Arrays in a folder."""

    def seeds(self) -> list[Seed]:
        return [
            Seed(npy(INPUTS), file="X.npy"),
            Seed(npy(PIXELS), file="X.npy"),
            Seed(npy(INPUTS.astype(">i2")), file="X.npy"),
            Seed(npy(INPUTS > 0), file="X.npy"),
            Seed(npy(CLASSES), file="y.npy"),
        ]

    def read(self, folder: Path, changed: Path) -> None:
        for file, good in (("X.npy", INPUTS), ("y.npy", CLASSES)):
            if changed.name != file:
                (folder / file).write_bytes(npy(good))
        dataset = whole("npz", folder)
        same_values(dataset, *(np.load(folder / name) for name in ("X.npy", "y.npy")))


class Npz:
    """Arrays in one file, some of them damaged before they are packed."""

    def seeds(self) -> list[Seed]:
        good = {"X.npy": npy(INPUTS), "y.npy": npy(CLASSES)}
        return [
            Seed(_zipped(good), file="some.npz"),
            Seed(_zipped(good, zipfile.ZIP_DEFLATED), file="some.npz"),
            Seed(good["X.npy"], lambda x: _zipped(good | {"X.npy": x}), file="some.npz"),
            Seed(npy(PIXELS), lambda x: _zipped(good | {"X.npy": x}), file="some.npz"),
            Seed(good["y.npy"], lambda y: _zipped(good | {"y.npy": y}), file="some.npz"),
            Seed(
                good["X.npy"],
                lambda x: _zipped(good | {"X.npy": x}, zipfile.ZIP_DEFLATED),
                file="some.npz",
            ),
        ]

    def read(self, folder: Path, changed: Path) -> None:
        dataset = whole("npz", changed)
        with np.load(changed, allow_pickle=False) as arrays:
            same_values(dataset, arrays["X"], arrays["y"])


def _zipped(files: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=method)
    return content.getvalue()


class Mat:
    """MATLAB files of versions 4 and 5, some of them damaged before they are packed."""

    def seeds(self) -> list[Seed]:
        plain = _mat()
        length = int.from_bytes(plain[132:136], "little")
        start, one, others = plain[:128], plain[128 : 136 + length], plain[136 + length :]

        def packed(element: bytes) -> bytes:
            content = zlib.compress(element)
            return (
                start + bytes([15, 0, 0, 0]) + len(content).to_bytes(4, "little") + content + others
            )

        files = [plain, _mat(do_compression=True), _mat(format="4")]
        return [
            *(Seed(file, file="some.mat") for file in files),
            Seed(one, packed, file="some.mat"),
        ]

    def read(self, folder: Path, changed: Path) -> None:
        dataset = whole("mat", changed)
        found = scipy.io.loadmat(changed, variable_names=["X", "y"])
        same_values(dataset, found["X"], found["y"], first=1)


def _mat(**options: Any) -> bytes:
    file = io.BytesIO()
    scipy.io.savemat(file, {"X": INPUTS, "y": CLASSES[:, None] + 1}, **options)
    return file.getvalue()


FILES = {
    "train-images-idx3-ubyte": images(3),
    "train-labels-idx1-ubyte": labels(0, 9, 4),
    "t10k-images-idx3-ubyte": images(2),
    "t10k-labels-idx1-ubyte": labels(1, 2),
}


class Idx:
    """MNIST's files."""

    wrap = staticmethod(bytes)

    def seeds(self) -> list[Seed]:
        return [Seed(content, self.wrap, file=name) for name, content in FILES.items()]

    def read(self, folder: Path, changed: Path) -> None:
        for name, content in FILES.items():
            if name != changed.name:
                (folder / name).write_bytes(content)
        dataset = whole("mnist", folder)
        for split, part in ((dataset.train, "train"), (dataset.test, "t10k")):
            pixels, classes = (
                _unpacked((folder / f"{part}-{kind}-ubyte").read_bytes())
                for kind in ("images-idx3", "labels-idx1")
            )
            assert split.inputs.numpy().tobytes() == pixels[16:]
            assert split.targets.tolist() == list(classes[8:])


class Gz(Idx):
    """The same, packed: damaged before, or after."""

    def seeds(self) -> list[Seed]:
        packed = {name: gzip.compress(content, mtime=0) for name, content in FILES.items()}
        after = [Seed(content, file=name) for name, content in packed.items()]
        return after + [Seed(one, _packed, file=name) for name, one in FILES.items()]


def _packed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _unpacked(content: bytes) -> bytes:
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


class CifarBinary:
    """Records of a label and its pixels."""

    def seeds(self) -> list[Seed]:
        record = b"".join(bytes([label]) + bytes(range(256)) * 12 for label in (0, 9))
        return [Seed(record, file="data_batch_1.bin"), Seed(record, file="test_batch.bin")]

    def read(self, folder: Path, changed: Path) -> None:
        for seed in self.seeds():
            if seed.file != changed.name:
                (folder / seed.file).write_bytes(seed.content)
        dataset = whole("cifar10", folder)
        content = np.frombuffer(changed.read_bytes(), np.uint8).reshape(-1, 3073)
        split = dataset.test if changed.name == "test_batch.bin" else dataset.train
        assert split.targets.tolist() == content[:, 0].tolist()
        assert np.array_equal(_values(split), content[:, 1:].astype(np.float64).reshape(-1))


class CifarPickle:
    """Pickles of all protocols that have bytes."""

    def seeds(self) -> list[Seed]:
        pixels = np.arange(2 * 3072, dtype=np.uint64).reshape(2, 3072).astype(np.uint8)
        content = {b"data": pixels, b"labels": [1, 9], b"filenames": [b"a.png", b"b.png"]}
        return [
            Seed(pickle.dumps(content, protocol=protocol), file="data_batch_1")
            for protocol in (2, 3, 4, 5)
        ]

    def read(self, folder: Path, changed: Path) -> None:
        (folder / "test_batch").write_bytes(self.seeds()[0].content)
        dataset = whole("cifar10", folder)
        pixels = dataset.train.inputs.numpy()
        content = changed.read_bytes()
        # Protocol 2 has bytes as text in UTF-8.
        written = (pixels.tobytes(), pixels.tobytes().decode("latin1").encode())
        assert any(one in content for one in written)
