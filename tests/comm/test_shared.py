"""Shared memory: one for all, gone with the last."""

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


def ours() -> list[str]:
    return [path.name for path in Path("/dev/shm").iterdir() if "phalanx" in path.name]


@pytest.mark.ranks(1, 2, 4)
@pytest.mark.parametrize("kind", ["unnamed", "named"])
def test_every_rank_sees_what_the_others_write(
    comm: Communicator, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "named":
        monkeypatch.setattr(shared, "_unnamed", lambda _size: (os.open("/dev/null", 0), "/absent"))
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
    assert ours() == []


def test_too_little_room_is_an_error_not_a_crash() -> None:
    with pytest.raises(SharedMemoryError, match=r"no room for .* MiB of shared memory"):
        SharedMemory(SingleCommunicator(), 1 << 50)
    assert ours() == []


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
