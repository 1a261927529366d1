"""A training goes on from a checkpoint as it does from its state in memory."""

from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from torch import Tensor

from phalanx import Share, State, Strategy, Trainer
from phalanx.checkpoints import CheckpointWriter, latest, newest_whole, read_checkpoint
from phalanx.comm.base import Communicator
from phalanx.strategies.allreduce import Allreduce
from phalanx.strategies.central import Central
from phalanx.strategies.local.strategy import Local
from phalanx.strategies.pipeline.strategy import Pipeline
from phalanx.strategies.server import Server
from phalanx.strategies.single import Single
from phalanx.strategies.tensor.strategy import Tensor as TensorParallel
from tests.state.test_moving import INTERRUPTED, STEPS, first_ranks, fit, make_trainer
from tests.strategies.test_parity import make_split

#: With the ranks to write on, and the one to read with.
MOVES: dict[str, tuple[Strategy, int, str]] = {
    "single": (Single(), 1, "central"),
    "allreduce": (Allreduce(), 2, "pipeline"),
    "compressed": (Allreduce(compress="bf16"), 3, "allreduce"),
    "central": (Central(), 3, "tensor"),
    "server": (Server(), 2, "single"),
    "local": (Local(every=3), 3, "allreduce"),
    "pipeline": (Pipeline(), 3, "central"),
    "tensor": (TensorParallel(), 2, "local"),
}


def parts_of(trainer: Trainer) -> State:
    """Collective. What `Trainer.state` gathers, before it does."""
    state = trainer.worker.state().add(trainer.meter.state(trainer.comm))
    known = {"seed": trainer.seed, "shards": None}
    return state.add(State(values={"position": asdict(trainer.position), **known}))


def trained(comm: Communicator, strategy: Strategy) -> Trainer:
    trainer = make_trainer(comm, strategy, optimizer="adam")
    trainer.fit(make_split(41), epochs=9, batch_size=16, steps=INTERRUPTED)
    return trainer


def write(trainer: Trainer, folder: Path, comm: Communicator) -> State:
    """Collective. Write a checkpoint; the same state in memory."""
    parts = parts_of(trainer)
    with CheckpointWriter(folder, comm, keep=1) as writer:
        writer.write(parts, trainer.position.step)
        state = trainer.state()
        assert writer.finish() is None
    shares = {name for name, one in parts.tensors.items() if isinstance(one, Share)}
    assert shares == set(state.own)
    return state


def assert_same(found: State, state: State) -> None:
    shares = set(state.own)
    assert found.values == state.values
    assert list(found.tensors) == list(state.tensors)
    for name in state.tensors:
        ours, theirs = found.tensor(name), state.tensor(name)
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)
        if name not in shares:  # sums of ranks may run in another order
            assert torch.equal(ours, theirs), name


def go_on(trainer: Trainer, state: State) -> dict[str, Tensor]:
    trainer.load(state)
    return fit(trainer, STEPS - INTERRUPTED)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize(
    "strategy",
    [
        Allreduce(),
        Allreduce(compress="bf16"),
        Central(),
        Local(every=3, pieces=2, compress="int8"),
        Pipeline(),
        TensorParallel(),
    ],
    ids=str,
)
def test_the_same_ranks_go_on(comm: Communicator, shared_path: Path, strategy: Strategy) -> None:
    trainer = trained(comm, strategy)
    state = write(trainer, shared_path, comm)
    trainer.close()
    path = shared_path / f"step-{INTERRUPTED:09}"
    found = read_checkpoint(path, rank=comm.rank, size=comm.size)
    assert_same(found, state)
    assert found.origin == (comm.rank, comm.size)
    assert set(found.own) == set(state.own)
    assert all(torch.equal(found.own[name], state.own[name]) for name in state.own)
    ours, theirs = (
        go_on(make_trainer(comm, strategy, optimizer="adam"), one) for one in (found, state)
    )
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-6, atol=1e-7)


@pytest.mark.ranks(3)
@pytest.mark.parametrize("name", MOVES)
def test_other_ranks_go_on(comm: Communicator, shared_path: Path, name: str) -> None:
    strategy, count, other = MOVES[name]
    after, others_count, _ = MOVES[other]
    some = first_ranks(comm, count)
    state: State | None = None
    if some is not None:
        trainer = trained(some, strategy)
        state = write(trainer, shared_path, some)
        trainer.close()
        some.free()
    state = comm.broadcast_object(state)
    assert state is not None
    others = first_ranks(comm, others_count)
    if others is None:
        return
    path, passed_over = newest_whole(shared_path)
    assert passed_over == []
    found = read_checkpoint(path, rank=others.rank, size=others.size)
    ours, theirs = (
        go_on(make_trainer(others, after, optimizer="adam"), one) for one in (found, state)
    )
    others.free()
    for key, value in theirs.items():
        torch.testing.assert_close(ours[key], value, rtol=1e-5, atol=1e-6)


@pytest.mark.ranks(3)
def test_each_rank_writes_its_own(comm: Communicator, shared_path: Path) -> None:
    """Of what is in parts; no rank has more than its share of the optimizer."""
    trainer = trained(comm, Central())
    parts = parts_of(trainer)
    write(trainer, shared_path, comm)
    trainer.close()
    path = latest(shared_path)
    assert path is not None
    names = {"checkpoint.json", *(f"rank-{rank}.safetensors" for rank in range(3))}
    assert {one.name for one in path.iterdir()} == names
    own = sum(one.values.nbytes for one in parts.tensors.values() if not isinstance(one, Tensor))
    size = (path / f"rank-{comm.rank}.safetensors").stat().st_size
    assert size >= own
    if comm.rank > 0:
        assert size < own + 10_000


@pytest.mark.ranks(2)
def test_rank_0_writes_alone_where_the_folder_is_its_own(
    comm: Communicator, tmp_path: Path
) -> None:
    mine = tmp_path / f"of rank {comm.rank}"
    trainer = trained(comm, Local(every=3))
    state = write(trainer, mine, comm)
    trainer.close()
    if comm.rank == 1:
        assert not mine.exists()
        return
    path = latest(mine)
    assert path is not None
    assert {one.name for one in path.iterdir()} == {"checkpoint.json", "rank-0.safetensors"}
    found = read_checkpoint(path, rank=0, size=2)
    assert_same(found, state)
    assert found.origin is None  # what was rank 1's own is not there
