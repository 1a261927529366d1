"""Metrics of a user's own: the same on any number of ranks, and in the middle of an epoch."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD
from torchmetrics.classification import MulticlassF1Score

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError
from phalanx.train.trainer import Trainer

INPUTS = torch.randn(10, 4, generator=torch.Generator().manual_seed(1))
TARGETS = torch.arange(10) % 3
DATA = (INPUTS, TARGETS)


def margin(outputs: Tensor, targets: Tensor) -> Tensor:
    """A number for each sample."""
    return outputs.amax(1) - outputs.gather(1, targets[:, None])[:, 0]


def dim_zero_sum(values: Tensor) -> Tensor:
    return values.sum(0)


def dim_zero_cat(values: Any) -> Tensor:
    return torch.cat(list(values))


class Seen:
    """Made as those of torchmetrics are: a state that adds up, and one that is put together."""

    def __init__(self) -> None:
        self._reductions = {"count": dim_zero_sum, "outputs": dim_zero_cat}
        self.reset()

    def reset(self) -> None:
        self.count = torch.tensor(0)
        self.outputs: list[Tensor] = []
        self._update_count = 0

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        self.count = self.count + len(targets)
        self.outputs.append(outputs[:, 0])

    def compute(self) -> Tensor:
        return torch.cat(self.outputs).double().median() + 1000 * self.count

    def __call__(self) -> None: ...


def make(comm: Communicator, strategy: str | None = None, **measures: Any) -> Trainer:
    torch.manual_seed(3)
    model = nn.Linear(4, 3)
    optimizer = SGD(model.parameters(), lr=0.1)
    return Trainer(model, optimizer, comm=comm, strategy=strategy, shards=4, measures=measures)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("strategy", ["allreduce", "central"])
def test_any_number_of_ranks(comm: Communicator, strategy: str) -> None:
    """Of epochs, of one that is gone on with from a state, and of evaluations."""
    alone = make(SingleCommunicator(), margin=margin, seen=Seen())
    expected = alone.fit(DATA, epochs=2, batch_size=4)
    with make(comm, strategy, margin=margin, seen=Seen()) as trainer:
        first = trainer.fit(DATA, epochs=2, batch_size=4, steps=4)
        state = trainer.state()
    with make(comm, strategy, margin=margin, seen=Seen()) as other:
        other.load(state)
        done = [*first, *other.fit(DATA, epochs=1, batch_size=4)]
        for ours, theirs in zip(done, expected, strict=True):
            assert ours.train.more == pytest.approx(theirs.train.more, rel=1e-6)
            assert theirs.train.more["seen"] > 9990
        assert other.evaluate(DATA).more == pytest.approx(alone.evaluate(DATA).more, rel=1e-6)
    outputs = alone.model(INPUTS).detach()
    assert alone.evaluate(DATA).more["margin"] == pytest.approx(
        margin(outputs, TARGETS).double().mean().item(), rel=1e-6
    )


def test_torchmetrics() -> None:
    wanted = MulticlassF1Score(num_classes=3)
    trainer = make(SingleCommunicator(), f1=wanted)
    found = trainer.evaluate(DATA).more["f1"]
    wanted.update(trainer.model(INPUTS), TARGETS)
    assert found == pytest.approx(float(wanted.compute()))


@pytest.mark.parametrize(
    ("measures", "message"),
    [
        ({"loss": margin}, "cannot be named 'loss'"),
        ({"mine": 3}, "'mine' is a function of outputs and targets .* not an int"),
    ],
)
def test_what_is_no_metric(measures: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make(SingleCommunicator(), **measures)


def test_one_number_for_a_batch_is_no_metric() -> None:
    trainer = make(SingleCommunicator(), mean=lambda outputs, targets: outputs.mean())
    with pytest.raises(UsageError, match=r"'mean' gives a tensor of .*a number for each sample"):
        trainer.evaluate(DATA)
