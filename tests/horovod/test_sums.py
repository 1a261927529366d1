"""The sums of a step, in shared memory and by MPI."""

import pytest
import torch

from phalanx.comm.base import Communicator
from phalanx.horovod.engine.buckets import Bucket
from phalanx.horovod.engine.sums import HostSums, MPISums, Sums, make_sums

_LENGTHS = (1, 63, 200_001)


def buckets(dtype: torch.dtype, wire: torch.dtype | None = None) -> list[Bucket]:
    return [Bucket((number,), (n,), dtype, wire or dtype) for number, n in enumerate(_LENGTHS)]


def bring(sums: Sums, *, rank: int, step: int) -> None:
    """Fill the buckets with what this rank brings to a step, and wait for the sums."""
    for flat in sums.flats:
        flat.copy_(torch.arange(len(flat)) % 97 + 100 * rank + step)
        sums.begin()
    while not sums.test():
        pass


@pytest.mark.ranks(1, 2, 3, 4)
@pytest.mark.parametrize("kind", [HostSums, MPISums])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_step_after_the_other(
    comm: Communicator, kind: type[HostSums] | type[MPISums], dtype: torch.dtype
) -> None:
    sums = kind(comm, buckets(dtype), divisor=comm.size)
    for step in range(5):
        bring(sums, rank=comm.rank, step=step)
        mean = 100 * (comm.size - 1) / 2 + step
        for flat in sums.flats:
            torch.testing.assert_close(flat, (torch.arange(len(flat)) % 97 + mean).to(dtype))
            flat.fill_(float("nan"))  # a rank's own from here on: no other reads it any more


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", [HostSums, MPISums])
def test_a_rank_without_gradients(comm: Communicator, kind: type[HostSums] | type[MPISums]) -> None:
    sums = kind(comm, buckets(torch.float32), divisor=1.0)
    if comm.rank == 0:
        for _ in sums.flats:
            sums.begin_with_zeros()
        while not sums.test():
            pass
    else:
        bring(sums, rank=comm.rank, step=0)
    total = sum(100 * rank for rank in range(1, comm.size))
    for flat in sums.flats:
        own = torch.arange(len(flat)) % 97 * (comm.size - 1) + total
        torch.testing.assert_close(flat, own.float())


@pytest.mark.ranks(2)
def test_which_one_is_taken(comm: Communicator) -> None:
    def taken(some: list[Bucket]) -> type[Sums]:
        return type(make_sums(comm, some, divisor=1.0))

    assert taken(buckets(torch.float32)) is HostSums
    assert taken(buckets(torch.float32)[:2]) is MPISums, "MPI is faster with few bytes"
    assert taken(buckets(torch.float32, torch.float16)) is MPISums, "halves must travel"
    assert taken(buckets(torch.bfloat16)) is MPISums, "rounded alike on one host and on several"
