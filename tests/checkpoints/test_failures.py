"""What goes wrong while a checkpoint is written: the last one stays, and nobody waits for ever."""

import errno
import os
import resource
import signal
import time
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import torch

from phalanx import State
from phalanx.checkpoints import CheckpointWriter, job, latest, newest_whole, read_checkpoint
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import CheckpointError, RankLostError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

KILLS = int(os.environ.get("PHALANX_KILLS", "10"))
ELEMENTS = 1_300_000  # more than goes through the cache


def state_at(step: int, rank: int = 0) -> State:
    """Many bytes, all of which say the step."""
    return State({f"parameters/{rank}": torch.full((ELEMENTS,), float(step))}, {"step": step})


def check(path: Path, *, ranks: int = 1) -> int:
    """The step of a checkpoint, which must be whole."""
    state = read_checkpoint(path)
    step = int(state.values["step"])
    assert path.name.startswith(f"step-{step:09}")
    assert set(state.tensors) == {f"parameters/{rank}" for rank in range(ranks)}
    assert all((state.tensor(name) == step).all() for name in state.tensors)
    return step


class Pair:
    """What a writer needs of a communicator, between two processes."""

    size = 2

    def __init__(self, rank: int, other: "Connection[Any, Any]") -> None:
        self.rank, self._other = rank, other

    def allgather_objects(self, value: Any) -> list[Any]:
        self._other.send(value)
        both = [value, self._other.recv()]
        return both if self.rank == 0 else both[::-1]

    def broadcast_object(self, value: Any, root: int = 0) -> Any:
        return self.allgather_objects(value)[root]


def _write_on(folder: Path, comm: Communicator, step: int, told: int) -> None:
    """Write checkpoints until somebody ends this process; tell of each that is there."""
    torch.set_num_threads(1)
    with CheckpointWriter(folder, comm, keep=2) as writer:
        while True:
            step += 1
            writer.write(state_at(step, comm.rank), step)
            assert writer.finish() is None
            if comm.rank == 0:
                os.write(told, step.to_bytes(8, "little"))


def _start(folder: Path, step: int, *, ranks: int) -> tuple[list[int], int]:
    """Processes that write on from a step, and where they tell of it."""
    receiving, sending = os.pipe()
    connections = Pipe()
    children = []
    for rank in range(ranks):
        comm: Any = SingleCommunicator() if ranks == 1 else Pair(rank, connections[rank])
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                _write_on(folder, comm, step, sending)
            os._exit(1)
        children.append(child)
    os.close(sending)
    for one in connections:
        one.close()
    return children, receiving


@pytest.mark.parametrize("writers", [1, 2])
def test_a_killed_writer_leaves_the_last_checkpoint(tmp_path: Path, writers: int) -> None:
    """At any moment: while it writes, syncs, renames or removes, or waits for the other rank.

    With PHALANX_KILLS as often as that says.
    """
    random = Random(writers)
    step = 0
    for _ in range(KILLS):
        children, receiving = _start(tmp_path, step, ranks=writers)
        last = os.read(receiving, 8)
        time.sleep(random.random() * 0.03)
        for child in random.sample(children, writers):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        while more := os.read(receiving, 8):
            last = more
        os.close(receiving)
        path, passed_over = newest_whole(tmp_path)
        assert passed_over == []
        step = check(path, ranks=writers)
        assert step - int.from_bytes(last, "little") in (0, 1)
    with CheckpointWriter(tmp_path, SingleCommunicator(), keep=2) as writer:
        writer.write(state_at(step + 1), step + 1)
        assert writer.finish() is None
    names = sorted(one.name for one in tmp_path.iterdir())
    assert names == [f"step-{one:09}" for one in (step, step + 1)]


def test_a_full_disk_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = CheckpointWriter(tmp_path, SingleCommunicator(), keep=1)
    writer.write(state_at(1), 1)
    assert writer.finish() is None
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ELEMENTS, hard))
    try:
        writer.write(state_at(2), 2)
        assert writer.finish() == os.strerror(errno.EFBIG)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    [record] = caplog.records
    assert (record.name, record.levelname) == ("phalanx.checkpoints", "WARNING")
    assert "step 2 could not be written (File too large): the training goes on" in record.message
    assert [one.name for one in tmp_path.iterdir()] == ["step-000000001"]
    writer.write(state_at(3), 3)  # there is room again
    assert writer.finish() is None
    writer.close()
    assert [check(one) for one in tmp_path.iterdir()] == [3]


def test_a_folder_that_goes_away_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "checkpoints"
    with CheckpointWriter(folder, SingleCommunicator(), keep=1) as writer:
        folder.rmdir()
        writer.write(state_at(1), 1)
        assert writer.finish() == os.strerror(errno.ENOENT)
    assert "step 1 could not be written" in caplog.text


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"file/folder: no checkpoints can be written there"):
        CheckpointWriter(tmp_path / "file" / "folder", SingleCommunicator(), keep=1)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("note", [True, False], ids=["with a note", "without a word"])
def test_one_rank_fails(
    comm: Communicator,
    shared_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    note: bool,
) -> None:
    """Then there is no checkpoint of that step, and the next one is as ever."""

    def full(*_: object, **_named: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def own(step: int) -> State:
        return State({f"parameters/{comm.rank}": torch.full((9,), float(step))})

    with CheckpointWriter(shared_path, comm, keep=2) as writer:
        writer.write(own(1), 1)
        assert writer.finish() is None
        with monkeypatch.context() as patch:
            if comm.rank == comm.size - 1:
                patch.setattr(job, "write_tensors", full)
                if not note:
                    patch.setattr(job, "_write_note", full)
            writer.write(own(2), 2)
            assert writer.finish() == f"rank {comm.size - 1}: No space left on device"
        assert len(caplog.records) == (comm.rank == 0)
        comm.barrier()
        assert [one.name for one in shared_path.iterdir()] == ["step-000000001"]
        comm.barrier()
        writer.write(own(3), 3)
        assert writer.finish() is None
    path = latest(shared_path)
    assert path is not None
    state = read_checkpoint(path)
    assert {name: state.tensor(name)[0].item() for name in state.tensors} == {
        f"parameters/{rank}": 3.0 for rank in range(comm.size)
    }


@pytest.mark.ranks(2)
def test_a_closed_writer_waits_for_nobody(
    comm: Communicator, shared_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the other rank is gone."""
    if comm.rank == 1:
        monkeypatch.setattr(job, "write_part", lambda *_, **_named: None)
        monkeypatch.setattr("phalanx.checkpoints.writing.write_part", lambda *_, **_named: None)
    writer = CheckpointWriter(shared_path, comm, keep=2)
    writer.write(State({f"parameters/{comm.rank}": torch.ones(3)}), 1)
    writer.close()
    comm.barrier()
    assert list(shared_path.iterdir()) == []


def test_a_rank_that_is_lost_while_it_is_planned_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comm = SingleCommunicator()
    with CheckpointWriter(tmp_path, comm, keep=1) as writer:
        answers = iter([[None]])  # that the one before is written

        def ask(_value: object) -> list[None]:
            try:
                return next(answers)
            except StopIteration:
                raise RankLostError("a rank is lost") from None

        monkeypatch.setattr(comm, "allgather_objects", ask)
        with pytest.raises(RankLostError):
            writer.write(State({"a": torch.ones(3)}), 1)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_one_trainings(tmp_path: Path) -> None:
    """Each would remove the other's checkpoints."""
    alone = SingleCommunicator()
    with CheckpointWriter(tmp_path, alone, keep=1):
        with pytest.raises(CheckpointError, match="another training writes its checkpoints there"):
            CheckpointWriter(tmp_path, alone, keep=1)
        CheckpointWriter(tmp_path, alone, keep=None).close()  # which removes none
    CheckpointWriter(tmp_path, alone, keep=1).close()
