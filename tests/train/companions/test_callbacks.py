"""What is called at the start and the end of a training, of epochs and of steps, on every rank."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError
from phalanx.state import State
from phalanx.strategies.base import Outcome
from phalanx.train.companions.averaged_weights import AveragedWeights
from phalanx.train.companions.callbacks import Callback
from phalanx.train.epoch import Epoch
from phalanx.train.trainer import Trainer

INPUTS = torch.randn(10, 4, generator=torch.Generator().manual_seed(1))
TARGETS = torch.arange(10) % 3


def make(comm: Communicator, strategy: str | None = None, **options: Any) -> Trainer:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3))
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    return Trainer(model, optimizer, comm=comm, strategy=strategy, **options)


def weight_of(trainer: Trainer) -> torch.Tensor:
    return next(trainer.model.parameters()).detach().clone()


class Diary(Callback):
    """Notes every call, and keeps the number of steps in the training's state."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.steps = 0

    def on_train_begin(self, trainer: Trainer) -> None:
        self.notes.append("begin")

    def on_train_end(self, trainer: Trainer) -> None:
        self.notes.append("end")

    def on_epoch_begin(self, trainer: Trainer) -> None:
        self.notes.append(f"epoch {trainer.position.epoch + 1}")

    def on_epoch_end(self, trainer: Trainer, epoch: Epoch) -> None:
        metrics = trainer.evaluate((INPUTS, TARGETS))  # all ranks together
        assert metrics.count == 10
        self.notes.append(f"after {epoch.number}")

    def on_step_begin(self, trainer: Trainer) -> None:
        self.notes.append(f"step {trainer.position.step}")

    def on_step_end(self, trainer: Trainer, outcome: Outcome) -> None:
        self.steps += 1

    def state(self) -> State:
        return State(values={"diary": self.steps})

    def load(self, state: State) -> None:
        self.steps = state.values.get("diary", 0)


FIRST = ["begin", "epoch 1", "step 0", "step 1", "step 2", "after 1", "epoch 2", "step 3", "end"]
SECOND = ["begin", "step 4", "step 5", "after 2", "end"]


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("strategy", ["allreduce", "central", "pipeline"])
def test_every_occasion_on_every_rank(comm: Communicator, strategy: str) -> None:
    """An epoch that is gone on with does not begin again; a callback's state goes along."""
    with make(comm, strategy) as trainer:
        diary = Diary()
        data = (INPUTS, TARGETS)
        trainer.fit(data, epochs=2, batch_size=4, steps=4, callbacks=[diary])
        assert diary.notes == FIRST
        state = trainer.state()
    with make(comm, strategy) as other:
        other.load(state)
        again = Diary()
        other.fit(data, epochs=1, batch_size=4, callbacks=[again])
        assert again.notes == SECOND
        assert again.steps == 6


def test_what_is_no_callback() -> None:
    with pytest.raises(UsageError, match=r"derive from phalanx.Callback, and this is a function"):
        make(SingleCommunicator()).fit(
            (INPUTS, TARGETS),
            epochs=1,
            batch_size=4,
            callbacks=[lambda: None],  # type: ignore[list-item]
        )


class Meddler(Callback):
    @torch.no_grad()
    def on_step_end(self, trainer: Trainer, outcome: Outcome) -> None:
        for parameter in trainer.model.parameters():
            parameter.mul_(0.5)


@pytest.mark.ranks(2)
def test_weights_are_for_reading_between_steps(comm: Communicator) -> None:
    trainer = make(comm, "central")
    with pytest.raises(UsageError, match=r"on_step_end changes the weights of '0\.weight'"):
        trainer.fit((INPUTS, TARGETS), epochs=1, batch_size=4, callbacks=[Meddler()])


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("strategy", ["allreduce", "central"])
def test_averaged_weights(comm: Communicator, strategy: str) -> None:
    """As a plain loop has them; evaluated with, put back, and gone on with from a state."""
    expected = _plain_average(steps=6, decay=0.8)
    averaged = AveragedWeights(0.8)
    with make(comm, strategy, shards=2) as trainer:
        trainer.fit((INPUTS, TARGETS), epochs=1, batch_size=4, callbacks=[averaged])
        state = trainer.state()
        weight = weight_of(trainer)
        with averaged.applied(trainer):
            assert torch.equal(weight_of(trainer), averaged.weights["0.weight"])
            with_average = trainer.evaluate((INPUTS, TARGETS)).loss
        assert torch.equal(weight_of(trainer), weight)
        assert trainer.evaluate((INPUTS, TARGETS)).loss != with_average
    with make(comm, strategy, shards=2) as other:
        other.load(state)
        again = AveragedWeights(0.8)
        other.fit((INPUTS, TARGETS), epochs=1, batch_size=4, callbacks=[again])
        torch.testing.assert_close(again.weights["0.weight"], expected, atol=1e-6, rtol=1e-5)


def _plain_average(*, steps: int, decay: float) -> torch.Tensor:
    seen: list[torch.Tensor] = []

    class Watch(Callback):
        def on_train_begin(self, trainer: Trainer) -> None:
            seen.append(weight_of(trainer))

        def on_step_end(self, trainer: Trainer, outcome: Outcome) -> None:
            seen.append(weight_of(trainer))

    make(SingleCommunicator(), shards=2).fit(
        (INPUTS, TARGETS), epochs=2, batch_size=4, callbacks=[Watch()]
    )
    average, *others = seen
    assert len(others) == steps
    for one in others:
        average = decay * average + (1 - decay) * one
    return average


@pytest.mark.ranks(2)
@pytest.mark.parametrize("strategy", ["local", "tensor"])
def test_weights_that_no_rank_has(comm: Communicator, strategy: str) -> None:
    trainer = make(comm, strategy)
    with pytest.raises(UsageError, match=f"strategy '{strategy}' no rank has the weights of all"):
        trainer.fit((INPUTS, TARGETS), epochs=1, batch_size=4, callbacks=[AveragedWeights()])
