"""Whole numbers as inputs, and weights that a forward pass changes."""

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from phalanx import Split, Trainer
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError

#: Above 2^24 float32 has no odd numbers.
FIRST = 2**24 + 1
WORDS = FIRST + torch.arange(24).view(12, 2) % 7
SPLIT = Split(WORDS, torch.arange(12) % 3)


class Words(nn.Module):
    """The mean of the vectors of a few words."""

    def __init__(self, max_norm: float | None = None) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.vectors = nn.Embedding(7, 5, max_norm=max_norm)
        self.last = nn.Linear(5, 3)

    def forward(self, words: Tensor) -> Tensor:
        found: Tensor = self.last(self.vectors(words - FIRST).mean(1))
        return found


class Shrinking(nn.Module):
    """Changes its weights whenever it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            self.layer.weight.mul_(0.99)
        outputs: Tensor = self.layer(inputs)
        return outputs


def weights(comm: Communicator, strategy: str, shards: int | None = None) -> list[Tensor]:
    model = Words()
    optimizer = SGD(model.parameters(), lr=0.1)
    with Trainer(model, optimizer, strategy=strategy, comm=comm, shards=shards) as trainer:
        trainer.fit(SPLIT, epochs=2, batch_size=5)
        assert trainer.evaluate(SPLIT).count == 12
    return [parameter.detach() for parameter in model.parameters()]


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("strategy", ["allreduce", "central", "gather"])
@pytest.mark.parametrize("shards", [None, 4])
def test_whole_numbers_reach_the_model(
    comm: Communicator, strategy: str, shards: int | None
) -> None:
    alone = weights(SingleCommunicator(), "single")
    for mine, theirs in zip(weights(comm, strategy, shards), alone, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.ranks(2)
def test_weights_that_a_forward_pass_changes(comm: Communicator) -> None:
    model = Words(max_norm=1.0)
    with pytest.raises(UsageError, match=r"'vectors' has max_norm=1, .*leave out max_norm"):
        Trainer(model, SGD(model.parameters(), lr=0.1), comm=comm)
    shrinking = Shrinking()
    trainer = Trainer(shrinking, SGD(shrinking.parameters(), lr=0.1), comm=comm)
    split = Split(torch.linspace(-1, 1, 48).view(12, 4), torch.arange(12) % 3)
    with pytest.raises(UsageError, match=r"changes the weights of 'layer.weight' in place"):
        trainer.fit(split, epochs=1, batch_size=4)


def test_one_rank_may_change_them() -> None:
    """As in plain torch."""
    model, plain = Words(max_norm=1.0), Words(max_norm=1.0)
    Trainer(model, SGD(model.parameters(), lr=0.1), comm=SingleCommunicator()).fit(
        SPLIT, epochs=1, batch_size=12
    )
    optimizer = SGD(plain.parameters(), lr=0.1)
    nn.functional.cross_entropy(plain(WORDS), SPLIT.targets).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    for mine, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
    with pytest.raises(UsageError, match="max_norm"):
        Trainer(model, SGD(model.parameters(), lr=0.1), comm=SingleCommunicator(), shards=2)
