"""A step of one's own, with two optimizers: as a plain loop, on any number of ranks."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, Adam

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.batches import order
from phalanx.errors import UsageError
from phalanx.strategies.own_step import Optimizers, OwnStep, Step
from phalanx.train.trainer import Trainer

SAMPLES = torch.randn(10, 3, generator=torch.Generator().manual_seed(1))
NOISE = torch.randn(10, 2, generator=torch.Generator().manual_seed(2))


class Game(nn.Module):
    """A generator and a discriminator."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Linear(2, 3)
        self.discriminator = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def make() -> tuple[Game, SGD, Adam]:
    torch.manual_seed(5)
    game = Game()
    return game, SGD(game.generator.parameters(), lr=0.1), Adam(game.discriminator.parameters())


def losses(game: Game, real: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    judged, faked = game.discriminator(real), game.discriminator(game.generator(noise).detach())
    ones, zeros = torch.ones_like(judged), torch.zeros_like(judged)
    told = F.binary_cross_entropy_with_logits
    return told(judged, ones) + told(faked, zeros), ones


def fooled(game: Game, noise: Tensor, ones: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(game.discriminator(game.generator(noise)), ones)


def adversarial(step: Step, batch: dict[str, Tensor]) -> Tensor:
    game: Any = step.model
    of_generator, of_discriminator = step.optimizers
    loss, ones = losses(game, batch["real"], batch["noise"])
    step.minimise(loss, of_discriminator)
    step.minimise(fooled(game, batch["noise"], ones), of_generator)
    return loss.detach()


def _batches(epoch: int) -> list[Tensor]:
    whole = order(10, seed=0, epoch=epoch)
    return [whole[start : start + 4] for start in range(0, 10, 4)]


def plain(epochs: int) -> Game:
    """In plain torch, with the order of samples that a Trainer has."""
    game, of_generator, of_discriminator = make()
    for epoch in range(epochs):
        for some in _batches(epoch):
            of_discriminator.zero_grad()
            loss, ones = losses(game, SAMPLES[some], NOISE[some])
            torch.autograd.backward(loss)
            of_discriminator.step()
            of_generator.zero_grad()
            torch.autograd.backward(fooled(game, NOISE[some], ones))
            of_generator.step()
    return game


def train(comm: Communicator, **options: Any) -> Trainer:
    game, *optimizers = make()
    return Trainer(
        game, Optimizers(*optimizers), comm=comm, strategy=OwnStep(adversarial), **options
    )


DATA = {"real": SAMPLES, "noise": NOISE}


@pytest.mark.ranks(1, 2)
def test_two_optimizers(comm: Communicator) -> None:
    """In one go, and interrupted inside an epoch: both optimizers go on from a state."""
    expected = plain(2)
    with train(comm) as trainer:
        trainer.fit(DATA, epochs=2, batch_size=4, steps=4)
        state = trainer.state()
    with train(comm) as other:
        other.load(state)
        (last,) = other.fit(DATA, epochs=1, batch_size=4)
        assert last.train.count == 10
    for ours, theirs in zip(other.model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


@pytest.mark.ranks(2)
def test_a_parameter_that_one_rank_alone_uses(comm: Communicator) -> None:
    model = nn.ParameterList([torch.ones(2), torch.ones(2), torch.ones(2)])

    def function(step: Step, batch: Tensor) -> Tensor:
        first, second, _ = step.model.parameters()
        loss = (batch.mean() * (first if comm.rank == 0 else second)).sum()
        step.minimise(loss)
        return loss.detach()

    optimizer = SGD(model.parameters(), lr=1.0)
    with Trainer(model, optimizer, comm=comm, strategy=OwnStep(function)) as trainer:
        trainer.fit(torch.ones(4, 1), epochs=1, batch_size=4)
    assert [one.tolist() for one in model] == [[0.5, 0.5], [0.5, 0.5], [1.0, 1.0]]


def test_what_does_not_go_together() -> None:
    comm = SingleCommunicator()
    with pytest.raises(UsageError, match="shards=2 is for steps that Phalanx makes"):
        train(comm, shards=2)
    trainer = train(comm)
    with pytest.raises(UsageError, match="does not say what to evaluate"):
        trainer.evaluate(DATA)
    with pytest.raises(UsageError, match="several optimizers: say which of them"):
        Step(comm, trainer.task).minimise(torch.zeros(1))
    with pytest.raises(UsageError, match="one by one"):
        trainer.optimizer.step()


@pytest.mark.ranks(2)
def test_a_rank_without_samples(comm: Communicator) -> None:
    trainer = train(comm)
    with pytest.raises(UsageError, match="a batch of 1 leaves some of 2 ranks without a sample"):
        trainer.fit(DATA, epochs=1, batch_size=3)
