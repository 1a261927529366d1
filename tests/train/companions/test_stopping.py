"""Trainings that end early, and trainings that go back to their best epoch."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD

from phalanx import data
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.split import Split
from phalanx.errors import DivergedError, UsageError
from phalanx.runs.weights import weights_digest
from phalanx.train.companions.stopping import BestWeights, Stopping
from phalanx.train.epoch import Epoch
from phalanx.train.metrics import Metrics
from phalanx.train.trainer import Trainer


def epoch(number: int, loss: float, *, accuracy: float = 0.0, **more: float) -> Epoch:
    checked = Metrics(loss, accuracy, 10, more)
    return Epoch(number, Metrics(0.0, 0.0, 10), checked, 1.0, learning_rate=0.1)


def test_patience_counts_epochs_without_a_better_loss() -> None:
    stopping = Stopping(patience=2)
    losses = [3.0, 2.0, 2.5, 1.9, 2.0, 1.9]
    reasons = [stopping.reason(epoch(n, loss)) for n, loss in enumerate(losses)]
    assert reasons == [None] * 5 + ["no better loss for 2 epochs"]


def test_another_metric_is_watched() -> None:
    rising, falling = Stopping(patience=2, watch="accuracy"), Stopping(patience=2, watch="mse")
    values = [0.3, 0.5, 0.4, 0.5]
    for number, value in enumerate(values[:-1]):
        assert rising.reason(epoch(number, 1.0, accuracy=value)) is None
    assert rising.reason(epoch(3, 1.0, accuracy=values[-1])) == "no better accuracy for 2 epochs"
    reasons = [falling.reason(epoch(n, 1.0, mse=value)) for n, value in enumerate(values)]
    assert reasons[1:] == [None, "no better mse for 2 epochs", "no better mse for 3 epochs"]


def test_that_of_the_training_is_watched() -> None:
    stopping = Stopping(patience=1, watch="training-loss")
    for number, loss in enumerate([3.0, 2.0]):
        train = Metrics(loss, 0.5, 10)
        found = Epoch(number, train, Metrics(1.0 + number, 0.5, 10), 1.0, learning_rate=0.1)
        assert stopping.reason(found) is None


def test_what_cannot_be_watched() -> None:
    with pytest.raises(UsageError, match="did you mean 'accuracy'"):
        Stopping(patience=2, watch="acuracy")
    with pytest.raises(UsageError, match="this training has no top-5 to watch"):
        Stopping(patience=2, watch="top-5").reason(epoch(1, 1.0))


def test_what_is_watched_for_nothing() -> None:
    trainer, split = diverging()
    with pytest.raises(UsageError, match="what keep_best and a plateau go by: give one of them"):
        trainer.fit(split, epochs=1, batch_size=10, watch="accuracy")


def test_the_best_epoch_is_none_without_a_number() -> None:
    best, model = BestWeights("accuracy"), nn.Linear(1, 1)
    found = []
    for number, accuracy in enumerate([math.nan, 0.2, 0.6, 0.4], 1):
        best.offer(epoch(number, 1.0, accuracy=accuracy), model)
        found.append(best.epoch)
    assert found == [1, 2, 3, 3]


@pytest.mark.parametrize(
    ("goal", "reached", "missed"),
    [
        (("accuracy", 0.9), epoch(1, 1.0, accuracy=0.9), epoch(1, 1.0, accuracy=0.8)),
        (("loss", 0.5), epoch(1, 0.5), epoch(1, 0.6)),
        (("top-5", 0.9), epoch(1, 1.0, **{"top-5": 0.95}), epoch(1, 1.0, **{"top-5": 0.1})),
        (("mse", 0.1), epoch(1, 1.0, mse=0.05), epoch(1, 1.0, mse=0.5)),
        (("hinge", 0.1), epoch(1, 1.0, hinge=0.1), epoch(1, 1.0, hinge=0.5)),
    ],
    ids=["accuracy", "loss", "top-5", "mse", "hinge"],
)
def test_a_goal(goal: tuple[str, float], reached: Epoch, missed: Epoch) -> None:
    assert Stopping(goal=goal).reason(missed) is None
    assert Stopping(goal=goal).reason(reached) == f"{goal[0]} has reached {goal[1]:g}"


def train(
    comm: Communicator, strategy: str, epochs: int, **options: Any
) -> tuple[str, list[float]]:
    """A rate at which the loss goes down first and up again later."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    split = data.load("digits").train.subset(torch.arange(60))
    rates = iter([0.05, 0.05, 80.0, 80.0])
    optimizer = SGD(model.parameters(), lr=next(rates))

    def change(_epoch: Epoch) -> None:
        optimizer.param_groups[0]["lr"] = next(rates)

    trainer = Trainer(model, optimizer, strategy=strategy, comm=comm)
    done = trainer.fit(
        split, epochs=epochs, batch_size=20, validation=split, on_epoch=change, **options
    )
    losses = [one.watched.loss for one in done]
    if options:
        assert trainer.evaluate(split).loss == pytest.approx(min(losses))
    trainer.sync()
    return weights_digest(model), losses


@pytest.mark.ranks(2)
@pytest.mark.parametrize("strategy", ["allreduce", "central", "local", "pipeline", "tensor"])
def test_the_best_weights_come_back(comm: Communicator, strategy: str) -> None:
    best, losses = train(comm, strategy, 3, keep_best=True)
    assert losses[1] < losses[0] < losses[2]
    assert best == train(comm, strategy, 2)[0]


def diverging() -> tuple[Trainer, Split]:
    """Losses go up until they are no numbers, some epochs later."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    optimizer = SGD(model.parameters(), lr=200.0)
    trainer = Trainer(model, optimizer, loss="squared-error", comm=SingleCommunicator())
    return trainer, data.load("digits").train.subset(torch.arange(60))


def test_a_training_that_diverges_ends_with_the_cause() -> None:
    trainer, split = diverging()
    seen: list[Epoch] = []
    with pytest.raises(DivergedError, match=r"loss of epoch \d+ is (nan|inf).* rate of 200; lower"):
        trainer.fit(split, epochs=100, batch_size=10, on_epoch=seen.append)
    assert 1 < len(seen) < 100


def test_a_training_that_diverges_keeps_its_best_weights() -> None:
    trainer, split = diverging()
    done = trainer.fit(split, epochs=100, batch_size=10, keep_best=True)
    assert len(done) < 100
    assert all(parameter.isfinite().all() for parameter in trainer.model.parameters())


@pytest.mark.parametrize(
    ("before", "now", "stopped"),
    [
        ({"patience": 1}, {"patience": 1}, "no better loss for 1 epoch"),
        ({"patience": 1}, {"patience": 2}, None),
        ({"patience": 1}, {}, None),
        ({"goal": ("loss", 3.0)}, {"goal": ("loss", 3.0)}, "loss has reached 3"),
        ({"goal": ("loss", 3.0)}, {"goal": ("loss", 2.0)}, None),
        ({"goal": ("loss", 3.0)}, {}, None),
    ],
    ids=str,
)
def test_a_training_that_stopped_stays_so_until_asked_for_more(
    before: dict[str, Any], now: dict[str, Any], stopped: str | None
) -> None:
    first, second = Stopping(**before), Stopping(**now)
    for number, loss in enumerate([4.0, 4.0, 3.0][: 3 if "goal" in before else 2]):
        reason = first.reason(epoch(number, loss))
    assert reason == first.stopped is not None
    second.load(first.state())
    assert second.stopped == stopped


def test_the_best_weights_of_a_training_that_is_over(tmp_path: Path) -> None:
    """Interrupted after its last epoch: it goes on with no epoch, and has them."""
    split = data.load("digits").train.subset(torch.arange(60))
    digests = []
    for folder in (tmp_path / "one", None):
        torch.manual_seed(3)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        trainer = Trainer(model, SGD(model.parameters(), lr=8.0), comm=SingleCommunicator())
        if folder is None:
            trainer.load(tmp_path / "one")
        done = trainer.fit(
            split,
            epochs=3 if folder else 0,
            batch_size=20,
            keep_best=True,
            checkpoint=folder,
        )
        assert len(done) == (3 if folder else 0)
        trainer.sync()
        digests.append(weights_digest(model))
        trainer.close()
    assert digests[0] == digests[1]
