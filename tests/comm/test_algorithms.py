"""MPI really adds up as it is told to: in float32 another order is another sum."""

from itertools import cycle

import pytest
import torch
from torch import Tensor

from phalanx.comm import algorithms
from phalanx.comm.algorithm_names import ALGORITHMS
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError

CHUNK = 4096


def brought() -> Tensor:
    """What each of four ranks brings."""
    return torch.randn(4, 4 * CHUNK, generator=torch.Generator().manual_seed(1))


def orders() -> dict[str, Tensor]:
    """The sum over four ranks as some algorithms make it."""
    a, b, c, d = brought()
    rings = torch.stack([a + b + c + d, b + c + d + a, c + d + a + b, d + a + b + c])
    index = torch.arange(4 * CHUNK)
    return {
        "descending": d + c + b + a,
        "pairs": (a + b) + (c + d),
        "ring": rings[index // CHUNK, index],
    }


def order_of(total: Tensor) -> str:
    return next((name for name, one in orders().items() if torch.equal(one, total)), "another")


@pytest.mark.ranks(4)
@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("linear", "descending"),
        ("recursive-doubling", "pairs"),
        ("ring", "ring"),
        ("segmented-ring", "ring"),
        ("rabenseifner", "pairs"),
    ],
)
def test_mpi_adds_up_as_told(comm: Communicator, name: str, order: str) -> None:
    from mpi4py import MPI

    threads = MPI.Query_thread()
    chosen = algorithms.choose(comm, name)
    assert MPI.Query_thread() == threads
    total = brought()[comm.rank].clone()
    chosen.allreduce(total)
    assert order_of(total) == order
    total = brought()[comm.rank].clone()
    comm.allreduce(total)
    assert order_of(total) == "pairs"  # others go on as before, and so do new ones
    again = comm.split(0)
    total = brought()[comm.rank].clone()
    again.allreduce(total)
    assert order_of(total) == "pairs"
    again.free()
    chosen.free()


@pytest.mark.ranks(4)
def test_started_sums_are_told_too(comm: Communicator) -> None:
    found = []
    for name in ("ring", "recursive-doubling"):
        chosen = algorithms.choose(comm, name, started=True)
        total = brought()[comm.rank].clone()
        chosen.iallreduce(total).wait()
        found.append(order_of(total))
        chosen.free()
    assert found == ["another", "pairs"]  # this ring starts elsewhere


@pytest.mark.ranks(4)
def test_some_ranks_may_choose_by_themselves(comm: Communicator) -> None:
    """MPI sums over all ranks when it makes a communicator, and they must not differ then."""
    some = comm.split(comm.rank // 2, comm.rank)
    if comm.rank < 2:
        chosen = algorithms.choose(some, "auto", started=True)
        total = torch.ones(1000)
        chosen.iallreduce(total).wait()
        assert total.eq(2).all()
        chosen.free()
    comm.split(0, comm.rank).free()
    some.free()


@pytest.mark.ranks(2, 3, 4)
@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("length", [1, 5, 1000, 1_000_000])
def test_every_algorithm_adds_up(comm: Communicator, name: str, length: int) -> None:
    chosen = algorithms.choose(comm, name)
    values = torch.arange(length, dtype=torch.float64) * (comm.rank + 1)
    chosen.allreduce(values)
    factor = comm.size * (comm.size + 1) // 2
    assert torch.equal(values, torch.arange(length, dtype=torch.float64) * factor)
    if chosen is not comm:
        chosen.free()


@pytest.mark.ranks(2)
def test_an_open_mpi_that_must_be_told_before(
    comm: Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phalanx.comm.algorithms._Switch.write", lambda *_: False)
    with pytest.raises(UsageError, match="takes it only when it starts") as error:
        algorithms.choose(comm, "ring")
    assert "OMPI_MCA_coll_tuned_allreduce_algorithm=4" in str(error.value)
    # Unless it was.
    wanted = cycle(algorithms._tuned("ring").values())
    monkeypatch.setattr("phalanx.comm.algorithms._Switch.read", lambda _: next(wanted))
    algorithms.choose(comm, "ring").free()


@pytest.mark.ranks(2)
def test_another_mpi_has_no_switch(comm: Communicator, monkeypatch: pytest.MonkeyPatch) -> None:
    from mpi4py import MPI

    monkeypatch.setattr(MPI, "get_vendor", lambda: ("MPICH", (4, 3, 2)))
    assert algorithms.choose(comm, "auto") is comm
    with pytest.raises(UsageError, match=r"'ring': MPICH 4\.3\.2 has no switch"):
        algorithms.choose(comm, "ring")


def test_names() -> None:
    alone = SingleCommunicator()
    assert algorithms.choose(alone, "ring", started=True) is alone
    with pytest.raises(UsageError, match="did you mean 'recursive-doubling'"):
        algorithms.choose(alone, "recursive_doubling")
    with pytest.raises(UsageError, match="does not work with overlap"):
        algorithms.choose(alone, "segmented-ring", started=True)
