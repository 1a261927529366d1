"""Workers read samples for a training: the same bits, whoever reads, and nobody is left behind."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD
from torch.utils.data import IterableDataset, Subset

from phalanx import Split, Trainer
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError
from tests.data.loading.datasets import Behaving, Drawn

WEIGHTS = torch.tensor([1.0, 2.0, 0.5])


def make_trainer(comm: Communicator | None = None) -> Trainer:
    torch.manual_seed(1)
    model = nn.Linear(12, 3)
    return Trainer(
        model,
        SGD(model.parameters(), lr=0.1),
        loss=nn.CrossEntropyLoss(weight=WEIGHTS),  # ranks agree on what a batch weighs
        comm=SingleCommunicator() if comm is None else comm,
        shards=2,
        seed=6,
    )


def outcome(trainer: Trainer, **fit: Any) -> list[Any]:
    """All that a training comes to."""
    epochs = trainer.fit(Drawn(), epochs=2, batch_size=6, validation=Drawn(9), **fit)
    trainer.sync()
    weights = [one.detach().tolist() for one in trainer.model.parameters()]
    return [weights, [(one.train, one.validation) for one in epochs]]


def children() -> set[int]:
    """The processes that this one has started and that are there."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # gone meanwhile
            continue
        if int(parent) == os.getpid() and state != "Z":
            found.add(int(entry.parent.name))
    return found


@pytest.mark.ranks(2)
def test_the_same_bits_whoever_reads(comm: Communicator) -> None:
    alone = outcome(make_trainer())
    before = children()
    # A rank may have more workers than another.
    for workers in (0, 2) if comm.size == 1 else (0, 1 + comm.rank):
        with make_trainer(comm) as trainer:
            assert outcome(trainer, workers=workers) == alone
    assert children() <= before  # others of the tests' may end meanwhile


def test_a_training_goes_on_inside_an_epoch() -> None:
    whole, first, second = make_trainer(), make_trainer(), make_trainer()
    expected = outcome(whole)
    first.fit(Drawn(), epochs=1, batch_size=6, steps=2)
    second.load(first.state())
    assert second.position.inside_epoch
    assert outcome(second, workers=1) == expected


def test_an_error_in_a_worker_ends_the_training_and_the_workers() -> None:
    trainer, before = make_trainer(), children()
    data = Subset(Behaving(), [0, 1, 2, 7, 3])  # the fourth is damaged
    with pytest.raises(ValueError, match="damaged") as caught:
        trainer.fit(data, epochs=1, batch_size=4, workers=1, collate=pair)
    assert "sample 3 of the data set" in "\n".join(caught.value.__notes__)
    assert children() <= before  # others of the tests' may end meanwhile


def pair(samples: list[dict[str, Any]]) -> tuple[Tensor, Tensor]:
    images = torch.stack([one["image"] for one in samples])
    return images.repeat(1, 3), torch.zeros(len(samples), dtype=torch.int64)


def test_predictions_are_read_by_workers_as_well() -> None:
    trainer = make_trainer()
    data = Drawn(300)
    assert torch.equal(trainer.predict(data, workers=1), trainer.predict(data))


class Counting(IterableDataset[int]):
    """Samples that come one after the other."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(9))


@pytest.mark.parametrize("workers", [-1, 1.5, True])
def test_a_number_of_workers_is_a_whole_number(workers: Any) -> None:
    with pytest.raises(UsageError, match=f"0 or more, not {workers}"):
        make_trainer().fit(Drawn(), epochs=1, batch_size=6, workers=workers)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (Split(torch.zeros(9, 12), torch.zeros(9)), "are in memory already"),
        ((np.zeros((9, 12)), np.zeros(9)), "are in memory already"),
        (Counting(), "come one after the other"),
    ],
)
def test_workers_that_would_have_nothing_to_do_are_refused(data: Any, why: str) -> None:
    with pytest.raises(UsageError, match=f"workers=2 .* {why}.*leave workers= out"):
        make_trainer().fit(data, epochs=1, batch_size=3, workers=2)
