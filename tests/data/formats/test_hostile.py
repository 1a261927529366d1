"""Files that are made to harm: they hang nobody, take no memory and run nothing."""

import gzip
import io
import os
import pickle
import signal
import socket
import struct
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from phalanx.data import check, load
from phalanx.data.containers import memory
from phalanx.data.containers.npz_archive import read_array
from phalanx.data.containers.pickle_steps import MOST_STEPS
from phalanx.data.tables.limits import MOST_CHARACTERS
from phalanx.data.tables.table import read_table
from phalanx.errors import DataError, PhalanxError, RunError, UsageError
from phalanx.inference.input_files import check_input
from phalanx.runs.folder import read_result
from phalanx.runs.weights import load_weights
from phalanx.settings.files import read_settings
from tests.data.conftest import idx
from tests.data.formats.test_cifar10 import pixels, python_folder


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """What waits for ever fails, instead of waiting for ever."""

    def late(*_: object) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


READERS: dict[str, Any] = {
    "some.csv": lambda path: load("csv", data_dir=path),
    "some.npz": lambda path: load("npz", data_dir=path),
    "some.mat": lambda path: load("mat", data_dir=path),
    "some.npy": check_input,
    "input.csv": check_input,
    "some.png": check_input,
    "table.csv": read_table,
    "member.npz": lambda path: read_array(path, "X"),
    "some.toml": lambda path: read_settings({}, path),
    "some.json": lambda path: read_settings({}, path),
    "some.safetensors": lambda path: load_weights(nn.Linear(1, 1), path),
    "weights.mat": lambda path: load_weights(nn.Linear(1, 1), path),
    "result.json": lambda path: read_result(path.parent),
}


@pytest.mark.parametrize("name", READERS)
def test_a_named_pipe_is_no_file(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(PhalanxError, match="named pipe"):
        READERS[name](tmp_path / name)


def test_neither_is_a_socket_nor_a_device(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "some.csv"))
        with pytest.raises(DataError, match="is a socket"):
            load("csv", data_dir=tmp_path / "some.csv")
    with pytest.raises(UsageError, match="is a device"):
        read_settings({}, Path("/dev/zero"))


def packed(size: int, shape: tuple[int, ...]) -> bytes:
    """A .npz file with X, whose header tells of a shape, before so many zeros."""
    header = io.BytesIO()
    described = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, described)
    labels = io.BytesIO()
    np.save(labels, np.zeros(4, np.int64))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", header.getvalue() + bytes(size))
        archive.writestr("y.npy", labels.getvalue())
    return content.getvalue()


def test_a_header_that_tells_of_more_than_there_is_takes_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "some.npz"
    for shape in ((1 << 40,), (1 << 62, 1 << 62), (3, -1)):
        file.write_bytes(packed(3, shape))
        with pytest.raises(DataError, match=r"some.npz: X: (too short|not a .npy file)"):
            load("npz", data_dir=file)


def test_what_unpacks_to_more_than_is_free_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_memory_of_host", lambda: 2 << 20)
    file = tmp_path / "some.npz"
    file.write_bytes(packed(1 << 20, (4, 1 << 18)))
    assert file.stat().st_size < 10_000
    with pytest.raises(DataError, match=r"1.00 MiB once unpacked, .* 2.00 MiB are free"):
        load("npz", data_dir=file)
    table = tmp_path / "some.csv.gz"
    table.write_bytes(gzip.compress(b"1,2,3\n" * 100_000))
    with pytest.raises(DataError, match=r"some.csv.gz: up to line .* is the file damaged"):
        read_table(table)
    for name in ("train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz"):
        content = idx(1500, 28, 28, content=bytes(1500 * 784))
        (tmp_path / name).write_bytes(gzip.compress(content))
    for name in ("train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"):
        (tmp_path / name).write_bytes(idx(1500, content=bytes(1500)))
    with pytest.raises(DataError, match="once unpacked"):
        load("mnist", data_dir=tmp_path)


def test_matrices_that_do_not_fit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matlab = pytest.importorskip("scipy.io")
    file = tmp_path / "some.mat"
    matlab.savemat(file, {"X": np.zeros((400, 400)), "y": np.ones(400)}, do_compression=True)
    assert len(load("mat", data_dir=file).train) > 0
    monkeypatch.setattr(memory, "free_memory_of_host", lambda: 2 << 20)
    with pytest.raises(DataError, match=r"some.mat: .* once unpacked"):
        load("mat", data_dir=file)


def test_a_matlab_file_whose_sizes_lead_backwards(tmp_path: Path) -> None:
    pytest.importorskip("scipy.io")
    # Version 4: its matrix has −1 rows, so that the next variable would be before this one.
    file = tmp_path / "some.mat"
    file.write_bytes(struct.pack("<5i", 0, -1, 3, 0, 2) + b"X\0" + bytes(24))
    with pytest.raises(DataError, match="not a readable MATLAB file"):
        load("mat", data_dir=file)


def test_cells_within_cells_are_not_followed(tmp_path: Path) -> None:
    matlab = pytest.importorskip("scipy.io")
    cell = np.empty(1, dtype=object)
    cell[0] = np.zeros(3)
    matlab.savemat(tmp_path / "some.mat", {"X": cell, "y": np.ones(3)})
    with pytest.raises(DataError, match="X is not a full matrix of numbers: it is a cell array"):
        load("mat", data_dir=tmp_path / "some.mat")


def test_a_line_without_end_is_no_row(tmp_path: Path) -> None:
    (tmp_path / "some.csv.gz").write_bytes(gzip.compress(b"1," * MOST_CHARACTERS))
    with pytest.raises(DataError, match="line 1 has more than"):
        read_table(tmp_path / "some.csv.gz")


def test_a_message_does_not_repeat_all_of_a_long_cell(tmp_path: Path) -> None:
    long = "b" * 100_000
    (tmp_path / "some.csv").write_text(f"{long},kind\n" + "1,x\n" * 20 + f"a{long},y\n")
    with pytest.raises(DataError, match="is not a number") as caught:
        check("csv", tmp_path / "some.csv")
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("value", ["1e39", "-1e308"])
def test_numbers_that_a_model_has_none_for_are_refused(tmp_path: Path, value: str) -> None:
    (tmp_path / "some.csv").write_text("a,b\n" + "1.5,x\n2.5,y\n" * 6 + f"{value},x\n")
    with pytest.raises(DataError, match=f"line 14, column 'a': '{value}' is not a finite number"):
        check("csv", tmp_path / "some.csv")
    arrays = {"X": np.full((10, 1), float(value)), "y": np.arange(10) % 2}
    np.savez(tmp_path / "some.npz", X=arrays["X"], y=arrays["y"])
    with pytest.raises(DataError, match="only finite numbers will do"):
        load("npz", data_dir=tmp_path / "some.npz")
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    with pytest.raises(DataError, match="only finite numbers will do"):
        load("npz", data_dir=tmp_path).train.take(torch.tensor([0]))


class SetsAttributes:
    """Makes of bytes what numpy takes for pointers to objects, as a crafted pickle does."""

    def __reduce__(self) -> tuple[Any, ...]:
        state = (1, (1, 3072), np.dtype("O"), False, [b"\x41" * 8] * 3072)
        reduced: Any = np.zeros(0, "b").__reduce__()
        return (reduced[0], reduced[1], state)


def test_a_pickle_makes_no_array_but_of_bytes(tmp_path: Path) -> None:
    python_folder(tmp_path)
    (tmp_path / "data_batch_3").write_bytes(pickle.dumps({b"data": SetsAttributes()}, protocol=2))
    with pytest.raises(DataError, match="data_batch_3: not a pickle of CIFAR-10: an array of"):
        load("cifar10", data_dir=tmp_path)


# Steps of a pickle: an empty dictionary, numpy.ndarray, a tuple of a value twice, and so on.
NDARRAY = b"cnumpy\nndarray\n"
LAUGHS = b"K\x01" + b"2\x86" * 60  # 2 to the 60th ones, in pairs of pairs


@pytest.mark.parametrize(
    ("steps", "cause"),
    [
        (NDARRAY + b"K\x03\x85R.", "it calls what is no function"),
        (NDARRAY + b"N}U\x04nameK\x01s\x86b.", "it sets attributes of what has none"),
        (b"cnumpy\ndtype\nN}U\x0c__defaults__)s\x86b.", "it sets attributes of what has none"),
        (b"}" + LAUGHS + b"K\x01s.", "it has a step DUP"),
        (b"}r\xff\xff\xff\x7f.", "'data' is not"),
        (b"}(K\x01" + b"q\x00h\x00h\x00\x86" * 40 + b"K\x01u.", "whose keys are not texts"),
        (b"K\x01" * (MOST_STEPS + 1) + b".", "more than 1,000,000 steps"),
        (b"(.", "a mark, where a value should be"),
        (b"\x80\x02", "pickle exhausted|does not end"),
    ],
)
def test_steps_of_a_pickle_that_harm(tmp_path: Path, steps: bytes, cause: str) -> None:
    python_folder(tmp_path)
    (tmp_path / "data_batch_3").write_bytes(b"\x80\x02" + steps)
    with pytest.raises(DataError, match=f"data_batch_3: .*({cause})"):
        load("cifar10", data_dir=tmp_path)


def test_labels_too_large_to_be_any(tmp_path: Path) -> None:
    python_folder(tmp_path)
    content = {b"data": pixels(1), b"labels": [1 << 70]}
    (tmp_path / "data_batch_3").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(DataError, match="'labels' is not a list of whole numbers"):
        load("cifar10", data_dir=tmp_path)


def test_whole_numbers_are_no_weights(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    model = nn.Linear(2, 1)
    whole = {name: tensor.detach().view(torch.int32) for name, tensor in model.named_parameters()}
    save_file(whole, tmp_path / "w.safetensors")
    with pytest.raises(RunError, match=r"weight holds torch.int32, and the model's is torch.float"):
        load_weights(model, tmp_path / "w.safetensors")


def test_ghostscript_is_never_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL")
    from phalanx.data.formats.image_files import decode

    def started(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "check_call", started)
    monkeypatch.setattr(subprocess, "Popen", started)
    page = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
    (tmp_path / "cat.jpg").write_bytes(page)
    with pytest.raises(DataError, match=r"cat.jpg: not an image .* it is none of JPEG, PNG"):
        decode(str(tmp_path / "cat.jpg"), (4, 4))
