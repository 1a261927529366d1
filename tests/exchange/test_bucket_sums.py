"""The sums of buckets, in shared memory and by MPI."""

from collections.abc import Mapping
from typing import Literal

import pytest
import torch

from phalanx.comm.base import Communicator
from phalanx.exchange.bucket_sums import BUCKET_BYTES, bucket_sums
from phalanx.exchange.buckets import Bucket
from phalanx.exchange.host_sums import HostSum, host_sums
from phalanx.exchange.sums import StartedSum, Sum, Sums

_LENGTHS = (1, 63, 200_001)
Kind = Literal["host", "mpi"]
Wires = Mapping[torch.dtype, torch.dtype]
both_kinds = pytest.mark.parametrize("kind", ["host", "mpi"])


def buckets(dtype: torch.dtype) -> list[Bucket]:
    return [Bucket((number,), (length,), dtype) for number, length in enumerate(_LENGTHS)]


def make_sums(comm: Communicator, kind: Kind, dtype: torch.dtype, *, divisor: float) -> Sums:
    if kind == "host":
        shared = host_sums(comm, buckets(dtype), divisor=divisor)
        assert shared is not None
        return Sums(shared)
    flats = [torch.zeros(length, dtype=dtype) for length in _LENGTHS]
    return Sums([StartedSum(comm, flat, divisor=divisor) for flat in flats])


def bring(sums: Sums, *, rank: int, step: int) -> None:
    """Fill the buckets with what this rank brings to a step, and wait for the sums."""
    for flat in sums.tensors:
        flat.copy_(torch.arange(len(flat)) % 97 + 100 * rank + step)
        sums.start_next()
    while not sums.test():
        pass


@pytest.mark.ranks(2, 3, 4)
@both_kinds
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_step_after_the_other(comm: Communicator, kind: Kind, dtype: torch.dtype) -> None:
    sums = make_sums(comm, kind, dtype, divisor=comm.size)
    for step in range(5):
        bring(sums, rank=comm.rank, step=step)
        mean = 100 * (comm.size - 1) / 2 + step
        for flat in sums.tensors:
            torch.testing.assert_close(flat, (torch.arange(len(flat)) % 97 + mean).to(dtype))
            flat.fill_(float("nan"))  # a rank's own from here on: no other reads it any more
    assert (sums.steps, sums.started, sums.started_ever) == (5, 0, 15)


@pytest.mark.ranks(2, 3)
@both_kinds
def test_a_rank_without_gradients(comm: Communicator, kind: Kind) -> None:
    sums = make_sums(comm, kind, torch.float32, divisor=1.0)
    if comm.rank == 0:
        for _ in sums.tensors:
            sums.start_next_with_zeros()
        while not sums.test():
            pass
    else:
        bring(sums, rank=comm.rank, step=0)
    total = sum(100 * rank for rank in range(1, comm.size))
    for flat in sums.tensors:
        own = torch.arange(len(flat)) % 97 * (comm.size - 1) + total
        torch.testing.assert_close(flat, own.float())


@pytest.mark.ranks(2)
def test_another_dtype_travels(comm: Communicator) -> None:
    flat = torch.full((3,), 1.0 + 2**-12)  # float16 has 10 bits behind the point
    whole = flat.clone()
    both = Sums([StartedSum(comm, flat, wire=torch.float16), StartedSum(comm, whole, divisor=4.0)])
    both.finish()
    assert flat.tolist() == [2.0] * 3
    assert whole.tolist() == [0.5 + 2**-13] * 3


@pytest.mark.ranks(2)
def test_which_one_is_taken(comm: Communicator) -> None:
    half = {torch.float32: torch.float16}

    def taken(dtype: torch.dtype, *lengths: int, half: Wires | None = None) -> list[type[Sum]]:
        dtypes = [dtype] * len(lengths)
        plan, sums = bucket_sums(comm, lengths, dtypes, divisor=1.0, wires=half or {})
        assert [bucket.length for bucket in plan] == [one.tensor.numel() for one in sums]
        return [type(one) for one in sums]

    many = 3 * BUCKET_BYTES // 8
    assert taken(torch.float32, many, many) == [HostSum], "all at once"
    assert taken(torch.float32, 10, 10) == [StartedSum], "MPI is faster with few bytes"
    assert taken(torch.float32, many, many, half=half) == [StartedSum] * 2, "halves must travel"
    assert taken(torch.float64, many, 7, half=half) == [HostSum]
    assert taken(torch.bfloat16, many) == [StartedSum], "rounded alike on one host and on several"
