"""Which checkpoints are in a folder, and which of them stay."""

import threading
from pathlib import Path

import pytest
import torch

from phalanx import State
from phalanx.checkpoints import (
    CheckpointWriter,
    latest,
    newest_whole,
    read_checkpoint,
    tensor_files,
)
from phalanx.checkpoints import job as writing_job
from phalanx.checkpoints.folders import Partial
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import CheckpointError, UsageError
from tests.checkpoints.examples import write_steps


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_the_newest_so_many_stay(tmp_path: Path) -> None:
    write_steps(tmp_path, 1, 2, 3, 1_000_000_000, keep=2)
    assert names(tmp_path) == ["step-000000003", "step-1000000000"]
    assert latest(tmp_path) == tmp_path / "step-1000000000"
    with pytest.raises(UsageError, match="1 or more"):
        CheckpointWriter(tmp_path, SingleCommunicator(), keep=0)


def test_a_step_is_written_again(tmp_path: Path) -> None:
    """The new one is there before the old one goes."""
    for _ in range(3):
        write_steps(tmp_path, 5, keep=2)
    assert names(tmp_path) == ["step-000000005-3"]
    write_steps(tmp_path, 6, keep=2)
    assert names(tmp_path) == ["step-000000005-3", "step-000000006"]


def test_a_training_that_goes_back_leaves_its_future_behind(tmp_path: Path) -> None:
    write_steps(tmp_path, 1, 2, 3)
    write_steps(tmp_path, 2)
    assert names(tmp_path) == ["step-000000001", "step-000000002-2"]


def test_what_the_dead_have_left_is_removed(tmp_path: Path) -> None:
    for name in ("step-000000009.partial-0123abcd", "not ours", "step-x"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rank-0.safetensors").touch()
    alive = Partial(tmp_path, 7)
    write_steps(tmp_path, 1)
    assert names(tmp_path) == sorted(["not ours", "step-x", alive.path.name, "step-000000001"])
    alive.drop()
    assert latest(tmp_path) == tmp_path / "step-000000001"


def test_there_may_be_none(tmp_path: Path) -> None:
    assert latest(tmp_path) is None
    assert latest(tmp_path / "nothing") is None
    with pytest.raises(CheckpointError, match="has no checkpoint that can be read"):
        newest_whole(tmp_path)


def test_damaged_ones_are_passed_over(tmp_path: Path) -> None:
    write_steps(tmp_path, 1, 2, 3, 4)
    (tmp_path / "step-000000004" / "checkpoint.json").unlink()
    file = tmp_path / "step-000000003" / "rank-0.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    path, passed_over = newest_whole(tmp_path)
    assert path == tmp_path / "step-000000002"
    assert [one.partition(":")[0] for one in passed_over] == [
        str(tmp_path / "step-000000004" / "checkpoint.json"),
        str(file),
    ]
    assert "no such file" in passed_over[0]
    assert "checksum" in passed_over[1]
    for one in (1, 2):
        (tmp_path / f"step-00000000{one}" / "rank-0.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError) as refused:
        newest_whole(tmp_path)
    assert str(refused.value).count("step-") == 4
    assert "\n" not in str(refused.value)


def test_a_training_waits_for_memory_and_not_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And does not take a second copy while the first is being written."""
    disk = threading.Event()

    def slowly(path: Path, tensors: dict[str, torch.Tensor], **how: set[str]) -> tensor_files.Sum:
        disk.wait()
        return tensor_files.write_tensors(path, tensors, **how)

    monkeypatch.setattr(writing_job, "write_tensors", slowly)
    values = {"position": [1]}
    with CheckpointWriter(tmp_path, SingleCommunicator(), keep=2) as writer:
        assert writer.ready()
        writer.write(State({"weight": torch.ones(3)}, values), 1)
        values["position"].append(2)  # the training goes on
        assert not writer.ready()
        assert latest(tmp_path) is None
        disk.set()
        writer.write(State({"weight": torch.ones(3)}, values), 2)  # waits for the first
        assert (tmp_path / "step-000000001").exists()
        assert writer.finish() is None
        assert writer.ready()
    found = [read_checkpoint(tmp_path / f"step-00000000{one}").values for one in (1, 2)]
    assert found == [{"position": [1]}, {"position": [1, 2]}]


def test_a_training_may_change_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with CheckpointWriter(Path("checkpoints"), SingleCommunicator(), keep=2) as writer:
        monkeypatch.chdir("elsewhere")
        writer.write(State({"weight": torch.ones(3)}), 1)
        assert writer.finish() is None
    assert names(tmp_path / "checkpoints") == ["step-000000001"]
