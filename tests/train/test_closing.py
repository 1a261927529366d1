"""A Trainer that is closed gives everything back: communicators, descriptors, memory, hooks."""

import gc
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import Adam

from phalanx import Split, Trainer, UsageError
from phalanx.comm.base import Communicator
from phalanx.comm.checked import unchecked
from phalanx.strategies.allreduce import Allreduce
from phalanx.strategies.registry import STRATEGIES, make

SPLIT = Split(torch.linspace(-2, 2, 32).view(8, 4), torch.arange(8) % 3)
SEVERAL = [name for name in STRATEGIES if name != "single"]


def make_trainer(comm: Communicator, strategy: Any) -> Trainer:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    return Trainer(model, Adam(model.parameters()), strategy=strategy, comm=comm)


def next_handle(comm: Communicator) -> int:
    """Collective. The number that MPI gives the next communicator: the lowest that is free."""
    made: Any = unchecked(comm.split(0, comm.rank))
    number: int = made._mpi.py2f()
    made.free()
    return number


@pytest.mark.ranks(2)
@pytest.mark.parametrize("strategy", SEVERAL)
def test_nothing_is_kept(comm: Communicator, strategy: str) -> None:
    options = {"cut": (1,)} if strategy == "pipeline" else {}
    found = []
    for _ in range(3):
        for _ in range(2):
            with make_trainer(comm, make(strategy, options)) as trainer:
                trainer.fit(SPLIT, epochs=1, batch_size=8)
        del trainer
        gc.collect()
        shared = Path("/proc/self/maps").read_text().count("memfd:phalanx")
        found.append((next_handle(comm), len(os.listdir("/proc/self/fd")), shared))
    assert found[1] == found[2], "(next communicator, descriptors, shared segments)"
    assert found[2][2] == 0


@pytest.mark.ranks(2)
def test_hooks_are_gone(comm: Communicator) -> None:
    """Nothing listens to the gradients of a model whose Trainer is closed."""
    trainer = make_trainer(comm, Allreduce(overlap=True))
    trainer.fit(SPLIT, epochs=1, batch_size=8)
    trainer.close()
    first = next(trainer.model.parameters())
    assert not first._post_accumulate_grad_hooks
    if comm.rank == 0:  # alone: an exchange would wait for the other rank
        trainer.model(torch.randn(2, 4)).sum().backward()
        assert first.grad is not None


@pytest.mark.ranks(2)
def test_a_closed_trainer_says_so_and_leaves_a_usable_model(comm: Communicator) -> None:
    trainer = make_trainer(comm, "central")
    trainer.fit(SPLIT, epochs=1, batch_size=8)
    before = trainer.predict(SPLIT)
    trainer.close()
    trainer.close()
    with pytest.raises(UsageError, match="was closed"):
        trainer.fit(SPLIT, epochs=1, batch_size=8)
    if before is not None:
        with torch.no_grad():
            torch.testing.assert_close(trainer.model(SPLIT.inputs), before)
    with pytest.raises(UsageError, match="in pieces on all ranks"):
        Trainer(trainer.model, trainer.optimizer, comm=comm)
