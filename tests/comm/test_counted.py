"""What counts as sent."""

import pytest
import torch

from phalanx.comm.base import Call, Communicator
from phalanx.comm.counted import CountedCommunicator, Traffic


@pytest.mark.ranks(1, 3)
def test_every_verb_counts_what_it_hands_over(comm: Communicator) -> None:
    traffic = Traffic()
    counted = CountedCommunicator(comm, traffic)
    first, alone = comm.rank == 0, comm.size == 1

    def sent() -> int:
        found, traffic.bytes = traffic.bytes, 0
        return 0 if alone else found

    row, table = torch.ones(4), torch.ones(comm.size, 4)
    counted.allreduce(row)
    assert sent() == (0 if alone else 16)
    counted.broadcast(row)
    assert sent() == (16 if first and not alone else 0)
    counted.gather(row, table)
    assert sent() == (0 if first else 16)
    counted.scatter(table, row)
    assert sent() == (16 * comm.size if first and not alone else 0)
    counted.barrier()
    assert sent() == 0
    run = counted.prepare(Call("allreduce", receive=row, op="sum"))
    run()
    run()
    assert sent() == (0 if alone else 32)
    counted.split(0).iallreduce(row).wait()
    counted.host().allreduce(row)
    assert sent() == (0 if alone else 32)
    if not alone:
        pending = counted.isend(row, (comm.rank + 1) % comm.size)
        counted.receive(row, (comm.rank - 1) % comm.size)
        pending.wait()
        assert sent() == 16
