"""Where a training stands, and how it goes on."""

import pytest
import torch
from torch import nn
from torch.optim import SGD

from phalanx import Split, Trainer
from phalanx.comm.single import SingleCommunicator
from phalanx.data.batches import Batch, order
from phalanx.strategies.base import Outcome, Worker
from phalanx.strategies.single import SingleWorker

SPLIT = Split(torch.randn(10, 4), torch.arange(10) % 3)


def make_trainer() -> Trainer:
    torch.manual_seed(1)
    model = nn.Linear(4, 3)
    optimizer = SGD(model.parameters(), lr=0.1)
    return Trainer(model, optimizer, comm=SingleCommunicator(), seed=6)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[int]]]:
    """The step number and the samples of every batch that a worker gets."""
    found: list[tuple[int, list[int]]] = []
    step = SingleWorker.step

    def note(self: Worker, batch: Batch) -> Outcome:
        found.append((batch.step, batch.indices.tolist()))
        return step(self, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(SingleWorker, "step", note)
    return found


def test_a_second_fit_goes_on_with_the_next_epoch(seen: list[tuple[int, list[int]]]) -> None:
    trainer = make_trainer()
    first = trainer.fit(SPLIT, epochs=2, batch_size=4)
    second = trainer.fit(SPLIT, epochs=1, batch_size=4)
    assert [epoch.number for epoch in (*first, *second)] == [1, 2, 3]
    assert [step for step, _ in seen] == list(range(9))
    for epoch in range(3):
        samples = [one for _, batch in seen[3 * epoch : 3 * epoch + 3] for one in batch]
        assert samples == order(10, seed=6, epoch=epoch).tolist()


def test_an_epoch_that_was_interrupted_is_finished(seen: list[tuple[int, list[int]]]) -> None:
    trainer = make_trainer()
    assert trainer.fit(SPLIT, epochs=1, batch_size=4, steps=1) == []
    assert (trainer.position.epoch, trainer.position.samples) == (0, 4)
    (epoch,) = trainer.fit(SPLIT, epochs=1, batch_size=3)  # another batch size, no sample twice
    assert epoch.train.count == 10
    assert [len(batch) for _, batch in seen] == [4, 3, 3]
    assert [one for _, batch in seen for one in batch] == order(10, seed=6, epoch=0).tolist()
    whole = make_trainer()
    whole.fit(SPLIT, epochs=1, batch_size=4, steps=1)
    assert whole.fit(SPLIT, epochs=1, batch_size=3)[0].train.loss == epoch.train.loss


def test_a_state_of_another_training_is_refused() -> None:
    state = make_trainer().state()
    model = nn.Linear(4, 3)
    other = Trainer(model, SGD(model.parameters(), lr=0.1), comm=SingleCommunicator(), seed=7)
    with pytest.raises(ValueError, match="seed=6, and this one has seed=7"):
        other.load(state)
    larger = nn.Linear(5, 3)
    wrong = Trainer(larger, SGD(larger.parameters(), lr=0.1), comm=SingleCommunicator(), seed=6)
    with pytest.raises(ValueError, match=r"float32\[3, 4\] in the state and float32\[3, 5\] here"):
        wrong.load(state)
    adam = torch.optim.Adam(model.parameters())
    with pytest.raises(ValueError, match="the state is that of SGD, and the optimizer is Adam"):
        Trainer(model, adam, comm=SingleCommunicator(), seed=6).load(state)
