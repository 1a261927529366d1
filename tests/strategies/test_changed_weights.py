"""What a user does to a model between steps, on every rank, counts once under any strategy."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from phalanx import Split, Trainer
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError

SPLIT = Split(torch.linspace(-1, 1, 48).view(12, 4), torch.arange(12) % 3)


class Net(nn.Module):
    """Large enough for `central` to add up gradients in shared memory, not by MPI."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.first = nn.Linear(4, 300)
        self.last = nn.Linear(300, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.last(self.first(inputs).tanh())
        return outputs


@torch.no_grad()
def halve(model: Net, *_: object) -> None:
    model.first.weight.mul_(0.5)
    model.last.bias.data.add_(0.25)


def replace(model: Net, *_: object) -> None:
    state = {name: tensor * 2 for name, tensor in model.state_dict().items()}
    model.load_state_dict(state, assign=True)


def reload(model: Net, *_: object) -> None:
    model.load_state_dict({name: tensor * 2 for name, tensor in model.state_dict().items()})


#: What is done on ranks, and on one rank, where an optimizer does not learn of new parameters.
CHANGES: dict[str, tuple[Callable[..., None], Callable[..., None]]] = {
    "in place": (halve, halve),
    "replaced": (replace, reload),
    "loaded": (reload, reload),
}


def trained(comm: Communicator, strategy: str, change: Callable[..., None]) -> list[Tensor]:
    model = Net()
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.5)
    with Trainer(model, optimizer, strategy=strategy, comm=comm) as trainer:
        fit: Callable[..., Any] = partial(trainer.fit, SPLIT, batch_size=5)
        change(model)
        fit(epochs=2, on_epoch=partial(change, model))
        change(model)
        before = [parameter.detach().clone() for parameter in model.parameters()]
        trainer.evaluate(SPLIT)
        trainer.state()
        for now, then in zip(model.parameters(), before, strict=True):
            torch.testing.assert_close(now.detach(), then, rtol=0, atol=0)
        fit(epochs=1)
        change(model)
    return [parameter.detach() for parameter in model.parameters()]


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("strategy", ["central", "allreduce", "gather"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_counts_once(comm: Communicator, strategy: str, change: str) -> None:
    here, there = CHANGES[change]
    alone = trained(SingleCommunicator(), "single", there)
    for mine, theirs in zip(trained(comm, strategy, here), alone, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.ranks(2)
def test_a_change_by_one_rank_alone_is_refused(comm: Communicator) -> None:
    model = Net()
    trainer = Trainer(model, SGD(model.parameters(), lr=0.1), strategy="central", comm=comm)
    if comm.rank == 0:
        nn.init.zeros_(model.last.weight)
    with pytest.raises(UsageError, match=r"'last.weight' have been changed .* not by rank 1"):
        trainer.fit(SPLIT, epochs=1, batch_size=4)


def test_one_rank_says_that_its_optimizer_holds_others() -> None:
    """As in plain torch, where it would go on with the old ones and say nothing."""
    model = Net()
    trainer = Trainer(model, SGD(model.parameters(), lr=0.1), comm=SingleCommunicator())
    replace(model)
    with pytest.raises(UsageError, match="the optimizer holds no parameter of the model"):
        trainer.fit(SPLIT, epochs=1, batch_size=4)
