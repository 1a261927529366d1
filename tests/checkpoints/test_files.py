"""What is written comes back as it was, or is refused."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from phalanx import Slice, State
from phalanx.checkpoints import CheckpointWriter, plain, read_checkpoint
from phalanx.checkpoints.reading import verify
from phalanx.checkpoints.tensor_files import DTYPES, read_header, write_tensors
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import CheckpointError, PhalanxError, UsageError
from tests.checkpoints.examples import TENSORS, VALUES, write_parts


def test_parts_make_a_whole(tmp_path: Path) -> None:
    path = write_parts(tmp_path / "checkpoint")
    verify(path)
    state = read_checkpoint(path)
    assert list(state.tensors) == list(TENSORS)
    for name, expected in TENSORS.items():
        assert torch.equal(state.tensor(name), expected), name
        assert state.tensor(name).dtype == expected.dtype
    assert state.values == VALUES
    assert (state.own, state.origin) == ({}, None)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_gets_its_own_back(tmp_path: Path, rank: int) -> None:
    path = write_parts(tmp_path / "checkpoint")
    state = read_checkpoint(path, rank=rank, size=2)
    assert state.origin == (rank, 2)
    own = {"metrics/sums": [[1.0, 2.0], [0.5, 0.5]], "strategy/own": [[1.0, 2.0], [3.0, 6.0]]}
    assert {name: one.tolist() for name, one in state.own.items()} == {
        name: both[rank] for name, both in own.items()
    }
    assert torch.equal(state.tensor("strategy/own"), TENSORS["strategy/own"])
    other = read_checkpoint(path, rank=rank, size=3)
    assert (other.own, other.origin) == ({}, None)


def test_any_dtype_and_any_reader_of_safetensors(tmp_path: Path) -> None:
    tensors = {
        str(dtype): torch.arange(-3, 5).to(torch.float32).to(dtype) for dtype in DTYPES.values()
    }
    shaped = torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last)
    tensors |= {"laid out": shaped, "number": torch.tensor(3), "none": torch.empty(0, 3)}
    file = tmp_path / "some.safetensors"
    assert write_tensors(file, tensors).size == file.stat().st_size
    found = load_file(file)
    assert set(found) == set(tensors)
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        assert bytes_of(found[name]) == bytes_of(tensor)
    assert set(read_header(file)) == set(tensors)


def bytes_of(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 0, -1, 1 << 63, -(1 << 80), 0.1, -0.0, 1e-320, "", "\ud800 \n ü", [], {}),
        *(math.inf, -math.inf, (), (1, (2, [3])), {"$float": "inf"}, {1: 2, "1": 3, (1, 2): 4}),
        *({"a": [{"b": (None,)}]}, {None: 1, True: 2}),
    ],
    ids=repr,
)
def test_plain_values_come_back(value: Any) -> None:
    text = json.dumps(plain.encode(value), allow_nan=False)
    assert repr(plain.decode(json.loads(text))) == repr(value)


def test_nan_and_other_libraries_numbers() -> None:
    assert math.isnan(plain.decode(plain.encode(math.nan)))
    found = plain.decode(plain.encode(np.float64(0.1)))
    assert (type(found), found) == (float, 0.1)


@pytest.mark.parametrize(
    "value",
    [{1}, b"a", np.float32(1), np.zeros(2), torch.ones(1), object(), 1j],
    ids=lambda value: type(value).__name__,
)
def test_other_values_are_refused(tmp_path: Path, value: Any) -> None:
    writer = CheckpointWriter(tmp_path, SingleCommunicator(), keep=1)
    with pytest.raises(UsageError, match=f"values/a/b: is an? {type(value).__name__}"):
        writer.write(State(values={"a": {"b": [value]}}), 1)
    assert list(tmp_path.iterdir()) == []


def test_other_tensors_are_refused(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path, SingleCommunicator(), keep=1)
    some = torch.ones(2)
    for states, cause in (
        ({"a": some.to(torch.complex128)}, "'a' is a tensor of torch.complex128"),
        ({"a": some.to_sparse()}, "torch.sparse_coo"),
        ({"__metadata__": some}, "cannot be named '__metadata__'"),
        ({"a\nb": some}, "cannot be named"),
        ({"a": Slice(some, (3,), (0,), 0)}, "the slices of 'a' are not all of it"),
        ({"a": Slice(some, (3,), (0,), 1)}, "overlap, or one is missing"),
    ):
        with pytest.raises(UsageError, match=cause):
            writer.write(State(dict(states)), 1)
    nested: Any = 1
    for _ in range(20):
        nested = [nested]
    with pytest.raises(UsageError, match="nested too deep"):
        writer.write(State(values={"a": nested}), 1)
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    path = write_parts(tmp_path / "checkpoint")
    for name in ("rank-1.safetensors", "checkpoint.json"):
        (path / name).unlink()
        for look in (read_checkpoint, verify):
            with pytest.raises(CheckpointError, match=f"^{path / name}: .*no such file"):
                look(path)
    with pytest.raises(CheckpointError, match=r"nowhere/checkpoint\.json: "):
        read_checkpoint(tmp_path / "nowhere")
    assert CheckpointError.exit_code == PhalanxError.exit_code == 2


def test_another_version_is_named(tmp_path: Path) -> None:
    path = write_parts(tmp_path / "checkpoint") / "checkpoint.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(CheckpointError, match="is of version 2, and this Phalanx reads version 1"):
        read_checkpoint(path.parent)


def test_more_than_memory_holds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parts(tmp_path / "checkpoint")
    monkeypatch.setattr("phalanx.checkpoints.reading.free_memory", lambda: 100)
    with pytest.raises(CheckpointError, match="of memory, and 100 B are free"):
        read_checkpoint(path)
    verify(path)
