"""Some of the ranks, by themselves; and who is who."""

import subprocess
import sys
from typing import Any

import pytest
import torch

import phalanx.horovod.torch as hvd
from phalanx.errors import MismatchError, UsageError

pytestmark = pytest.mark.usefixtures("horovod")


@pytest.mark.ranks(3)
def test_operations_of_a_process_set() -> None:
    pair = hvd.add_process_set([2, 0])
    rest = hvd.add_process_set(hvd.ProcessSet([1]))
    mine = pair if hvd.rank() != 1 else rest
    assert (pair.size(), pair.ranks, pair.included()) == (2, [0, 2], hvd.rank() != 1)
    assert mine.rank() == hvd.rank() // 2
    total = hvd.allreduce(torch.tensor([hvd.rank()]), op=hvd.Sum, process_set=mine)
    assert total.tolist() == ([2] if mine is pair else [1])
    if mine is pair:
        assert hvd.broadcast(torch.tensor(hvd.rank()), 2, process_set=pair).item() == 2
        assert hvd.allgather_object(hvd.rank(), process_set=pair) == [0, 2]
    else:
        with pytest.raises(UsageError, match="rank 1 is not in the process set"):
            hvd.allreduce(torch.ones(1), process_set=pair)
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 3
    assert hvd.remove_process_set(pair)
    assert not hvd.remove_process_set(pair)
    assert not hvd.remove_process_set(hvd.global_process_set)
    with pytest.raises(UsageError, match="not known yet"):
        pair.size()


@pytest.mark.ranks(3)
def test_an_optimizer_of_a_process_set() -> None:
    pair = hvd.add_process_set([0, 1])
    parameter = torch.nn.Parameter(torch.zeros(1))
    plain = torch.optim.SGD([parameter], lr=1.0)
    optimizer = hvd.DistributedOptimizer(plain, process_set=pair)
    (parameter * (hvd.rank() + 1)).sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    assert parameter.item() == (-3.0 if hvd.rank() == 2 else -1.5)


@pytest.mark.ranks(2)
def test_refusals() -> None:
    with pytest.raises(UsageError, match="there is a process set of ranks"):
        hvd.add_process_set([0, 1])
    with pytest.raises(UsageError, match="from 0 to 1"):
        hvd.add_process_set([5])
    with pytest.raises(MismatchError, match=r"rank 1 gave \[1\], rank 0 \[0\]"):
        hvd.add_process_set([hvd.rank()])


@pytest.mark.ranks(1, 2, 4)
def test_who_is_who() -> None:
    assert hvd.is_initialized()
    assert hvd.allgather(torch.tensor([hvd.rank()])).tolist() == list(range(hvd.size()))
    assert (hvd.local_rank(), hvd.local_size()) == (hvd.rank(), hvd.size())
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)
    assert hvd.is_homogeneous()
    assert hvd.mpi_built()
    assert hvd.mpi_enabled()
    assert not any([hvd.gloo_built(), hvd.gloo_enabled(), hvd.nccl_built(), hvd.cuda_built()])
    assert not any([hvd.ddl_built(), hvd.ccl_built(), hvd.rocm_built()])
    assert isinstance(hvd.mpi_threads_supported(), bool)


@pytest.mark.ranks(2)
def test_start_again() -> None:
    hvd.shutdown()
    assert not hvd.is_initialized()
    hvd.init(process_sets=[[0], [1]])
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2
    hvd.shutdown()
    hvd.init(comm=[0, 1])
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2


@pytest.mark.ranks(3)
def test_static_sets_that_differ_by_rank() -> None:
    """Horovod's guide: "Static process sets from MPI communicators"."""
    from mpi4py import MPI

    hvd.shutdown()
    everyone = MPI.COMM_WORLD.Dup()
    some = everyone.Split(everyone.rank % 2, everyone.rank)
    own = hvd.ProcessSet(some)
    with pytest.raises(UsageError, match=r"a communicator's ranks.* is not known yet"):
        own.ranks  # noqa: B018
    hvd.init(everyone, process_sets=[own])
    assert (own.ranks, own.process_set_id) == (([1], 2) if hvd.rank() == 1 else ([0, 2], 1))
    total = hvd.allreduce(torch.tensor(hvd.rank()), op=hvd.Sum, process_set=own)
    assert total.item() == (1 if hvd.rank() == 1 else 2)
    with pytest.raises(UsageError, match=r"there is a process set of ranks \[0, 2\] already"):
        hvd.add_process_set([0, 2])
    added = hvd.add_process_set(hvd.ProcessSet([0, 1]))
    assert added.process_set_id == 3
    some.Free()


@pytest.mark.ranks(2)
def test_sets_of_the_same_ranks_are_one() -> None:
    from mpi4py import MPI

    hvd.shutdown()
    host = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    on_host, pair, one, same = (hvd.ProcessSet(ranks) for ranks in (host, [1, 0], [0], [0]))
    hvd.init(process_sets=[on_host, pair, one, same, hvd.global_process_set])
    sets = (on_host, pair, one, same, hvd.global_process_set)
    assert [each.process_set_id for each in sets] == [0, 0, 1, 1, 0]
    assert on_host.engine() is hvd.global_process_set.engine()
    assert not hvd.remove_process_set(on_host)
    assert hvd.remove_process_set(one)
    assert same.process_set_id is None
    host.Free()


@pytest.mark.ranks(2)
@pytest.mark.parametrize(
    ("on_rank_1", "message"),
    [([7], r"rank 1: a process set has ranks from 0 to 1, not \[7\]"), ("null", "MPI.COMM_NULL")],
)
def test_an_init_that_fails_has_started_nothing(on_rank_1: Any, message: str) -> None:
    from mpi4py import MPI

    last = hvd.rank() == 1
    hvd.shutdown()
    wrong = hvd.ProcessSet(MPI.COMM_NULL if on_rank_1 == "null" else on_rank_1)
    with pytest.raises(UsageError, match=message):
        hvd.init(process_sets=[wrong if last else hvd.ProcessSet([0])])
    assert not hvd.is_initialized()
    hvd.init(process_sets=[[0]])
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2


@pytest.mark.parametrize("ranks", [3, "01", [0.5]])
def test_what_is_no_process_set(ranks: Any) -> None:
    with pytest.raises(UsageError, match="takes a list of ranks or a communicator, not"):
        hvd.ProcessSet(ranks)


def test_a_single_process_needs_no_mpi() -> None:
    # In a process that starts from nothing: here another test may have started MPI.
    code = """
import torch
import phalanx.horovod.torch as hvd
hvd.init()
assert (hvd.rank(), hvd.size(), hvd.mpi_enabled()) == (0, 1, False)
assert hvd.synchronize(hvd.allreduce_async(torch.ones(2))).tolist() == [1, 1]
assert hvd.join() == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.ranks(3)
def test_optimizers_that_some_ranks_do_not_have() -> None:
    pair = hvd.add_process_set([0, 1])
    if pair.included():
        hvd.DistributedOptimizer(
            torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0), process_set=pair
        )
    parameter = torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0))
    (parameter.sum() * hvd.rank()).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    assert parameter.tolist() == [-1.0, -1.0]


@pytest.mark.ranks(3)
def test_a_shutdown_is_heard_of_in_every_process_set() -> None:
    hvd.add_process_set([0, 1])
    if hvd.rank() > 0:
        with pytest.raises(hvd.HorovodInternalError, match=r"rank 0 has called hvd.shutdown"):
            hvd.allreduce(torch.ones(1), name="x")
    hvd.shutdown()
