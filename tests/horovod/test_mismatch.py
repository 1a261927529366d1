"""Ranks that disagree: an error on each of them, which names them, and everything goes on."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import phalanx.horovod.torch as hvd
from phalanx.errors import UsageError

pytestmark = pytest.mark.usefixtures("horovod")

CASES: dict[str, tuple[Callable[[int], Any], str]] = {
    "shape": (
        lambda rank: hvd.allreduce(torch.ones(2 + rank), name="x"),
        r"allreduce.x: rank 0 brought float32\[2\], rank 1 brought float32\[3\]",
    ),
    "begun": (
        lambda rank: hvd.synchronize(hvd.allreduce_async(torch.ones(2 + rank), name="x")),
        r"rank 1 brought float32\[3\]",
    ),
    "operation": (
        lambda rank: (hvd.allreduce, hvd.allgather)[rank](torch.ones(2), name="x"),
        "'x': rank 0 called allreduce, rank 1 called allgather",
    ),
}


@pytest.mark.ranks(2)
@pytest.mark.parametrize("case", CASES)
def test_every_rank_raises_and_goes_on(case: str) -> None:
    call, message = CASES[case]
    with pytest.raises(hvd.HorovodInternalError, match=message):
        call(hvd.rank())
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2


#: What rank 0 refuses by itself, while the other ranks' arguments are right.
REFUSALS: dict[str, tuple[Callable[[bool, str | None], Any], str]] = {
    "dtype": (
        lambda wrong, name: hvd.allreduce(
            torch.ones(2, dtype=torch.bool if wrong else torch.float32), name=name
        ),
        "average of booleans",
    ),
    "begun": (
        lambda wrong, name: hvd.synchronize(
            hvd.allreduce_async(
                torch.ones(2, dtype=torch.int32), name=name, op=hvd.Adasum if wrong else hvd.Sum
            )
        ),
        "Adasum is for floating point",
    ),
    "average and op": (
        lambda wrong, name: hvd.allreduce(
            torch.ones(2), average=True if wrong else None, name=name, op=hvd.Sum
        ),
        "give op alone",
    ),
    "layout": (
        lambda wrong, name: hvd.allgather(
            torch.eye(2).to_sparse() if wrong else torch.eye(2), name=name
        ),
        "sparse",
    ),
    "root": (
        lambda wrong, name: hvd.broadcast(torch.ones(2), 9 if wrong else 0, name=name),
        "root_rank 9",
    ),
    "rows": (
        lambda wrong, name: hvd.alltoall(torch.ones(5 if wrong else 6), name=name),
        "5 rows are not",
    ),
    "splits": (
        lambda wrong, name: hvd.alltoall(
            torch.ones(3 if wrong else 4, requires_grad=True),
            splits=[4] + [0] * (hvd.size() - 1),
            name=name,
        ),
        "add up to the 3 rows",
    ),
    "empty group": (
        lambda wrong, name: hvd.grouped_allreduce([] if wrong else [torch.ones(1)], name=name),
        "at least one tensor",
    ),
    "no rows": (
        lambda wrong, name: hvd.reducescatter(
            torch.tensor(1.0) if wrong else torch.ones(6), name=name
        ),
        "first dimension",
    ),
    "sparse sum": (
        lambda wrong, name: hvd.sparse_allreduce_async(
            torch.eye(2) if wrong else torch.eye(2).to_sparse(), name=name
        )(),
        "takes a sparse COO tensor",
    ),
}


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("name", ["x", None])
@pytest.mark.parametrize("case", REFUSALS)
def test_what_one_rank_refuses_fails_on_all(case: str, name: str | None) -> None:
    call, message = REFUSALS[case]
    if hvd.rank() == 0:
        with pytest.raises(UsageError, match=message):
            call(True, name)
    else:
        with pytest.raises(hvd.HorovodInternalError, match=f"refused on rank 0: .*{message}"):
            call(False, name)
    assert call(False, name) is not None
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("name", ["x", None])
@pytest.mark.parametrize("case", REFUSALS)
def test_what_all_ranks_refuse(case: str, name: str | None) -> None:
    call, message = REFUSALS[case]
    for _ in range(2):
        with pytest.raises(UsageError, match=message):
            call(True, name)
    assert call(False, name) is not None


@pytest.mark.ranks(2)
def test_a_name_twice() -> None:
    if hvd.rank() == 0:
        handle = hvd.allreduce_async(torch.ones(1), name="x")
        with pytest.raises(ValueError, match=r"allreduce.x is under way already"):
            hvd.allreduce_async(torch.ones(1), name="x")
    hvd.barrier()
    if hvd.rank() == 1:
        handle = hvd.allreduce_async(torch.ones(1), name="x")
    assert hvd.synchronize(handle).item() == 1


@pytest.mark.ranks(1)
def test_what_cannot_be_sent() -> None:
    with pytest.raises(UsageError, match="sparse"):
        hvd.allreduce(torch.eye(2).to_sparse())
    with pytest.raises(UsageError, match="tensor is needed"):
        hvd.allreduce([1.0])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="op alone"):
        hvd.allreduce(torch.ones(1), average=True, op=hvd.Sum)
    with pytest.raises(UsageError, match=r"hvd\.Average"):
        hvd.allreduce(torch.ones(1), op="sum")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no order"):
        hvd.allreduce(torch.ones(1, dtype=torch.complex64), op=hvd.Max)


def test_before_init() -> None:
    hvd.shutdown()
    with pytest.raises(ValueError, match="not been initialised"):
        hvd.allreduce(torch.ones(1))
    with pytest.raises(ValueError, match="not been initialised"):
        hvd.rank()


@pytest.mark.ranks(2)
def test_shutdown_fails_what_others_wait_for() -> None:
    if hvd.rank() == 1:
        with pytest.raises(hvd.HorovodInternalError, match="rank 0 has called"):
            hvd.allreduce(torch.ones(1), name="alone")
    # The fixture shuts down, on rank 0 while rank 1 still waits.
