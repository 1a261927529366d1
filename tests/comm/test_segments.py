"""What Open MPI keeps in shared memory has no name once a job has begun."""

from pathlib import Path

import pytest

from phalanx.comm.base import Communicator
from phalanx.comm.segments import unlink_segments


@pytest.mark.ranks(2)
def test_segments_have_no_name(comm: Communicator) -> None:
    comm.barrier()
    lines = Path("/proc/self/maps").read_text().splitlines()
    mapped = [line for line in lines if "/sm_segment." in line]
    assert mapped, "another MPI, or another transport"
    assert all(line.endswith(" (deleted)") for line in mapped)
    unlink_segments()  # a second time there is nothing to do
    comm.barrier()
