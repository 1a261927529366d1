"""LBFGS evaluates the loss several times in a step: on one rank, and on those that follow it."""

import pytest
import torch
from torch import Tensor, nn
from torch.optim import LBFGS

from phalanx import data
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.batches import batches
from phalanx.data.split import Samples, Split
from phalanx.errors import UsageError
from phalanx.train.trainer import Trainer


def minimised(
    comm: Communicator, strategy: str, *, line_search: str | None, shards: int | None = None
) -> list[Tensor]:
    """The weights after a few steps of LBFGS."""
    torch.manual_seed(7)
    model = nn.Linear(64, 10).double()
    optimizer = LBFGS(model.parameters(), lr=0.5, max_iter=4, line_search_fn=line_search)
    with Trainer(model, optimizer, strategy=strategy, comm=comm, shards=shards) as trainer:
        trainer.fit(flat_split(), epochs=2, batch_size=40)
    return [parameter.detach() for parameter in model.parameters()]


def flat_split() -> Split:
    digits = data.load("digits").train.subset(torch.arange(77))
    return Split(digits.inputs.view(-1, 64) / 16, digits.targets)


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_lbfgs_is_that_of_plain_torch(line_search: str | None) -> None:
    torch.manual_seed(7)
    model = nn.Linear(64, 10).double()
    optimizer = LBFGS(model.parameters(), lr=0.5, max_iter=4, line_search_fn=line_search)
    for epoch in range(2):
        for batch in batches(flat_split(), batch_size=40, seed=0, epoch=epoch, dtype=torch.float64):
            samples = batch.whole()

            def closure(samples: Samples = samples) -> Tensor:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(samples.inputs), samples.targets)
                loss.backward()  # type: ignore[no-untyped-call]
                return loss

            optimizer.step(closure)  # type: ignore[no-untyped-call]
    for shards in (None, 4):
        ours = minimised(SingleCommunicator(), "single", line_search=line_search, shards=shards)
        for mine, theirs in zip(ours, model.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs.detach(), rtol=0, atol=1e-9)


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
@pytest.mark.parametrize("shards", [None, 4])
def test_lbfgs_on_ranks(comm: Communicator, line_search: str | None, shards: int | None) -> None:
    alone = minimised(SingleCommunicator(), "single", line_search=line_search)
    ours = minimised(comm, "allreduce", line_search=line_search, shards=shards)
    for mine, theirs in zip(ours, alone, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-9)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("strategy", ["gather", "server", "async", "local", "pipeline"])
def test_lbfgs_where_ranks_cannot_follow(comm: Communicator, strategy: str) -> None:
    model = nn.Sequential(nn.Linear(64, 10), nn.Linear(10, 10))
    message = f"LBFGS evaluates .* '{strategy}' cannot follow: take strategy 'single'"
    with pytest.raises(UsageError, match=message):
        Trainer(model, LBFGS(model.parameters()), strategy=strategy, comm=comm)
