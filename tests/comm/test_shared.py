"""Shared memory: one for all, gone with the last."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from phalanx.comm import shared
from phalanx.comm.base import Communicator
from phalanx.comm.shared import SharedMemory, SharedMemoryError, room_for
from phalanx.comm.single import SingleCommunicator


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of segments with names: one of the test's own, where nobody else has any."""
    folder = tmp_path / "named"
    folder.mkdir()
    monkeypatch.setattr(shared, "_NAMED_FOLDER", folder)
    return folder


@pytest.mark.ranks(1, 2, 4)
@pytest.mark.parametrize("kind", ["unnamed", "named"])
def test_every_rank_sees_what_the_others_write(
    comm: Communicator, named: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "named":
        absent = shared._Segment(os.open("/dev/null", 0), "/absent")
        monkeypatch.setattr(shared, "_unnamed", lambda _size: absent)
    shapes = [((comm.size, 1000), torch.float32), ((3,), torch.float64), ((0,), torch.int64)]
    memory = SharedMemory(comm, sum(room_for(shape, dtype) for shape, dtype in shapes))
    table, small, empty = (memory.tensor(shape, dtype) for shape, dtype in shapes)
    assert not table.any()
    assert table.data_ptr() % 64 == 0
    assert small.shape == (3,)
    assert empty.shape == (0,)
    comm.barrier()
    table[comm.rank] = comm.rank + 1
    comm.barrier()
    assert table.sum(1).tolist() == [1000.0 * (rank + 1) for rank in range(comm.size)]
    comm.barrier()
    assert list(named.iterdir()) == []


@pytest.mark.ranks(2)
def test_a_file_that_another_rank_takes_for_the_segment_stays_as_it_is(
    comm: Communicator, named: Path, shared_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in containers of their own, where /proc/PID/fd/N is what another process has open."""
    size = room_for((1000,), torch.float32)
    own = shared_path / f"own-{comm.rank}"
    for content in (b"data" * (size // 4), b"short"):
        own.write_bytes(content)
        monkeypatch.setattr(
            shared,
            "_unnamed",
            lambda size: shared._Segment(
                shared._reserve(os.memfd_create("test"), size), str(shared_path / "own-1")
            ),
        )
        table = SharedMemory(comm, size).tensor((1000,), torch.float32)
        comm.barrier()
        if comm.rank == 0:
            table.fill_(3)
        comm.barrier()
        assert table.sum().item() == 3000
        assert own.read_bytes() == content
        comm.barrier()
    assert list(named.iterdir()) == []


def test_a_kernel_that_makes_no_unnamed_file(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_name: str, _flags: int) -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "memfd_create", refuse)
    memory = SharedMemory(SingleCommunicator(), 4096).tensor((3,), torch.float32)
    assert memory.tolist() == [0, 0, 0]
    assert list(named.iterdir()) == []


def test_why_neither_way_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "_NAMED_FOLDER", tmp_path / "absent")
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(SharedMemoryError, match=r"not implemented.*No such file.*'allreduce'"):
        SharedMemory(SingleCommunicator(), 4096)


def test_too_little_room_is_an_error_not_a_crash(named: Path) -> None:
    with pytest.raises(SharedMemoryError, match=r"no room for .* MiB of shared memory"):
        SharedMemory(SingleCommunicator(), 1 << 50)
    assert list(named.iterdir()) == []


SMALL_HOST = """
from phalanx.comm import shared
from phalanx.comm.single import SingleCommunicator
shared._unnamed = shared._named
try:
    shared.SharedMemory(SingleCommunicator(), 8 << 20)
except shared.SharedMemoryError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small /dev/shm takes root")
def test_a_containers_small_dev_shm() -> None:
    script = f"mount -t tmpfs -o size=1m tmpfs /dev/shm && {sys.executable!r} -c '{SMALL_HOST}'"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False
    )
    if "Operation not permitted" in done.stderr:
        pytest.skip("this machine allows no mount namespace")
    assert "no room for 8 MiB of shared memory" in done.stdout, done.stderr
    assert "--shm-size" in done.stdout
