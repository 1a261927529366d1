"""Any data set, any batch and any objective, on any number of ranks: as a plain loop has it."""

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError
from phalanx.strategies.allreduce import Allreduce
from phalanx.strategies.asynchronous.strategy import Asynchronous
from phalanx.strategies.base import Strategy
from phalanx.strategies.central import Central
from phalanx.strategies.local.strategy import Local
from phalanx.strategies.server import Server
from phalanx.strategies.single import Single
from phalanx.strategies.tensor.strategy import Tensor as TensorParallel
from phalanx.train.trainer import Trainer
from tests.train.any_batch import (
    BATCH,
    COUNT,
    FORMS,
    MASKED,
    TARGETS,
    InOrder,
    Rows,
    assert_close,
    make_model,
    make_trainer,
    mean,
    plain,
    trained,
    weights_of,
)

PARALLEL: dict[str, Strategy] = {
    "allreduce": Allreduce(),
    "overlap": Allreduce(overlap=True),
    "central": Central(),
    "server": Server(),
    "changes": Server(exchange="changes"),
    "tensor": TensorParallel(),
    "local": Local(every=1),
    "async": Asynchronous(max_staleness=0),
}
#: What takes fixed shards, and clips by the whole gradient.
EXACT = ("allreduce", "central", "server", "tensor")
#: What needs a rank to serve.
SERVED = ("server", "changes", "async")


def fits(strategy: str, comm: Communicator) -> bool:
    return comm.size > 1 or strategy not in SERVED


@pytest.mark.ranks(1, 2, 3)
def test_every_form_has_the_weights_of_a_plain_loop(comm: Communicator) -> None:
    shuffled, in_order = plain(), plain(shuffles=False)
    for form in FORMS:
        wanted = in_order if "stream" in form else shuffled
        assert_close(trained(comm, form=form), wanted, form)
        assert_close(trained(comm, "allreduce", form=form, accumulate=2), wanted, form)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("strategy", PARALLEL)
def test_every_strategy_takes_an_objective(comm: Communicator, strategy: str) -> None:
    if not fits(strategy, comm):
        return
    parallel = PARALLEL[strategy]
    for form in ("tensors", "data set of named tuples", "stream"):
        shuffles = form != "stream"
        assert_close(trained(comm, parallel, form=form), plain(shuffles=shuffles), form)
        ours = trained(comm, parallel, form=form, objective=mean, accumulate=2)
        assert_close(ours, plain(mean, shuffles=shuffles), f"{form}, a mean, in two passes")


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("strategy", EXACT)
def test_shards_and_clipping(comm: Communicator, strategy: str) -> None:
    if not fits(strategy, comm):
        return
    parallel = PARALLEL[strategy]
    for form in ("tensors", "data set of texts", "stream"):
        shuffles = form != "stream"
        wanted = plain(shuffles=shuffles, clip_norm=0.1)
        assert_close(trained(comm, parallel, form=form, clip_norm=0.1), wanted, "clipped")
        sharded = trained(comm, parallel, form=form, shards=4)
        assert_close(sharded, plain(shuffles=shuffles), "shards")
        if strategy != "tensor":  # whose layers are computed in pieces
            alone = trained(SingleCommunicator(), Single(), form=form, shards=4)
            assert all(map(torch.equal, sharded, alone))


def test_other_strategies_train_too() -> None:
    """On one rank these are the plain loop, too."""
    for strategy in (Single(), Local(every=3)):
        assert_close(trained(SingleCommunicator(), strategy), plain(), str(strategy))


@pytest.mark.ranks(3)
@pytest.mark.parametrize("strategy", [Local(every=3), Asynchronous()], ids=["local", "async"])
def test_strategies_without_parity_learn(comm: Communicator, strategy: Strategy) -> None:
    with make_trainer(comm, strategy) as trainer:
        epochs = trainer.fit(Rows(), epochs=8, batch_size=2 * BATCH)
    assert all(bool(one.isfinite().all()) for one in weights_of(trainer.model))
    assert epochs[-1].train.loss < epochs[0].train.loss
    assert [epoch.train.count for epoch in epochs] == [COUNT] * 8  # of masked ones, too


@pytest.mark.ranks(3)
def test_fewer_samples_than_ranks(comm: Communicator) -> None:
    """Batches of two samples, the last of one; those of texts alone have no tensor to count."""
    for form in ("tensors", "data set of texts", "stream"):
        weights = []
        for where, strategy in ((comm, "central"), (SingleCommunicator(), "single")):
            with make_trainer(where, strategy, mean) as trainer:
                trainer.fit(FORMS[form][0], epochs=1, batch_size=2)
            weights.append(weights_of(trainer.model))
        assert_close(weights[0], weights[1], form)


class Augmented(Rows):
    """Noise by all three libraries."""

    def __getitem__(self, index: int) -> Any:
        inputs, targets, mask = super().__getitem__(index)
        noise = float(torch.rand(())) + float(np.random.rand()) + random.random()
        return inputs + noise, targets, mask


@pytest.mark.ranks(1, 2, 3)
def test_augmentation_is_the_same_on_any_number_of_ranks(comm: Communicator) -> None:
    torch.manual_seed(comm.rank)
    np.random.seed(comm.rank)
    random.seed(comm.rank)
    weights = []
    for where, strategy in ((comm, "central"), (SingleCommunicator(), "single")):
        with make_trainer(where, strategy, shards=3) as trainer:
            trainer.fit(Augmented(), epochs=2, batch_size=BATCH)
        weights.append(weights_of(trainer.model))
    assert all(map(torch.equal, *weights))
    assert not torch.equal(weights[0][0], plain()[0])


@pytest.mark.ranks(2, 3)
def test_it_goes_on_inside_an_epoch_elsewhere(comm: Communicator) -> None:
    """Begun on one rank, gone on with by two strategies on several, ended on one."""
    alone = SingleCommunicator()
    for form in ("data set of texts", "stream", "tensors"):
        data, _ = FORMS[form]
        wanted = trained(alone, "single", form=form, shards=3)
        with make_trainer(alone, "single", shards=3) as first:
            first.fit(data, epochs=2, batch_size=BATCH, steps=1)
            state = first.state()
        for strategy in ("allreduce", "central"):
            with make_trainer(comm, strategy, shards=3) as trainer:
                trainer.load(state)
                trainer.fit(data, epochs=2, batch_size=BATCH, steps=1)
                state = trainer.state()
        assert state.values["position"]["samples"] == 3 * BATCH
        with make_trainer(alone, "single", shards=3) as last:
            last.load(state)
            last.fit(data, epochs=2 - last.position.epoch, batch_size=BATCH)
        assert all(map(torch.equal, weights_of(last.model), wanted)), form


def test_a_loss_takes_several_inputs_and_targets() -> None:
    """A model of a dictionary, a loss of a tuple: by the pairs of a collate function."""

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = make_model()

        def forward(self, inputs: dict[str, Tensor]) -> Tensor:
            found: Tensor = self.inner(inputs["a"] + inputs["b"])
            return found

    def pairs(samples: list[Any]) -> Any:
        inputs, targets, _ = (torch.stack(column) for column in zip(*samples, strict=True))
        return {"a": inputs / 2, "b": inputs / 2}, targets

    torch.manual_seed(1)
    model = Two()
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.5)
    with Trainer(model, optimizer, loss=nn.MSELoss(), comm=SingleCommunicator()) as trainer:
        trainer.fit(Rows(), epochs=2, batch_size=BATCH, collate=pairs)
        found = trainer.evaluate(Rows(), collate=pairs)
        outputs = trainer.predict(Rows(), collate=pairs)
    assert_close(weights_of(model), plain(mean), "pairs")
    assert found.loss == pytest.approx(float((outputs - TARGETS).square().mean()), rel=1e-5)


class Shorter(Rows):
    def __len__(self) -> int:
        return COUNT - 1


class Shifted(Rows):
    def __getitem__(self, index: int) -> Any:
        inputs, targets, mask = super().__getitem__(index)
        return inputs + 1, targets, mask


@pytest.mark.ranks(2)
@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Shorter(), f"rank 1 brought training samples {COUNT - 1}, rank 0 {COUNT}"),
        (Shifted(), "rank 1 brought training samples with the fingerprint"),
        (InOrder(), f"rank 1 brought training samples InOrder, rank 0 {COUNT}"),
    ],
    ids=["shorter", "shifted", "stream"],
)
def test_ranks_bring_the_same_samples(comm: Communicator, other: Any, message: str) -> None:
    trainer = make_trainer(comm, "allreduce")
    with pytest.raises(UsageError, match=message):
        trainer.fit(Rows() if comm.rank == 0 else other, epochs=1, batch_size=BATCH)


class OfRank(InOrder):
    """What other trainers ask for: a part of the samples for each rank."""

    def __init__(self, rank: int, *, step: int) -> None:
        self.rank, self.step = rank, step

    def __iter__(self) -> Iterator[Any]:
        return islice(super().__iter__(), self.rank, None, self.step)


@pytest.mark.ranks(2)
def test_a_stream_is_the_same_on_every_rank(comm: Communicator) -> None:
    message = r"rank 1 brought samples of a stream \(cut by rank\?\) with the fingerprint"
    with pytest.raises(UsageError, match=message):
        make_trainer(comm, "allreduce").fit(OfRank(comm.rank, step=2), epochs=1, batch_size=BATCH)
    empty = [OfRank(COUNT, step=1), OfRank(0, step=1)]
    with pytest.raises(UsageError, match=rf"rank 1 brought samples .* {BATCH}, rank 0 0"):
        make_trainer(comm, "central").fit(empty[comm.rank], epochs=1, batch_size=BATCH)


@pytest.mark.ranks(1, 2)
def test_what_was_trained_is_evaluated(comm: Communicator) -> None:
    with make_trainer(comm, "central", MASKED) as trainer:
        losses = [trainer.evaluate(data, collate=collate).loss for data, collate in FORMS.values()]
        with torch.no_grad():
            wanted = float(MASKED.function(trainer.model, FORMS["tensors"][0]))
    assert losses == pytest.approx([wanted] * len(FORMS), rel=1e-5)
