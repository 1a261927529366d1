"""The transformer under every strategy: the weights of `single`, which are those of plain torch."""

import copy
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam

from phalanx import models
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.batches import batches
from phalanx.data.split import Split
from phalanx.runs.weights import weights_digest
from phalanx.strategies.asynchronous.strategy import Asynchronous
from phalanx.strategies.base import Strategy
from phalanx.strategies.local.strategy import Local
from phalanx.strategies.pipeline.strategy import Pipeline
from phalanx.strategies.registry import make
from phalanx.train.trainer import Trainer

LENGTH, TOKENS = 8, 11
#: Every strategy whose weights are those of `single`, up to rounding.
EXACT: dict[str, Strategy] = {
    **{name: make(name, {}) for name in ("allreduce", "central", "server", "gather", "tensor")},
    "async in step": Asynchronous(max_staleness=0),
    "pipeline": Pipeline(micro_batches=3),
}


def make_split() -> Split:
    """57 windows, each of which has one token in common with the next."""
    tokens = torch.randint(TOKENS, (401,), generator=torch.Generator().manual_seed(1))
    return Split(tokens[:-1].unfold(0, LENGTH, 7), tokens[1:].unfold(0, LENGTH, 7))


def make_model(heads: int = 4, dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(2)
    options = {"embedding_size": 24, "attention_heads": heads, "dropout_rate": dropout}
    return models.build("transformer", input_shape=(LENGTH,), classes=TOKENS, options=options)


def train(comm: Communicator, strategy: Strategy | str, **options: Any) -> nn.Module:
    """Two epochs in batches of 13, the last of 5."""
    model = make_model(options.pop("heads", 4), options.pop("dropout", 0.0))
    optimizer = Adam(model.parameters(), lr=0.003)
    with Trainer(model, optimizer, strategy=strategy, comm=comm, seed=5, **options) as trainer:
        trainer.fit(make_split(), epochs=2, batch_size=13)
    return model


@cache
def train_alone(**options: Any) -> nn.Module:
    """What all are compared with, once for all of them."""
    return train(SingleCommunicator(), "single", **options)


def assert_close(mine: nn.Module, other: nn.Module) -> None:
    for (name, one), two in zip(mine.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-5, msg=lambda text: f"{name}: {text}")  # noqa: B023


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("strategy", EXACT)
def test_every_strategy_equals_single(comm: Communicator, strategy: str) -> None:
    assert_close(train(comm, EXACT[strategy]), train_alone())


@pytest.mark.ranks(2)
def test_ranks_that_train_alone_average_to_the_same_weights_everywhere(comm: Communicator) -> None:
    digests = comm.allgather_objects(weights_digest(train(comm, Local(every=2))))
    assert len(set(digests)) == 1


@pytest.mark.ranks(3)
@pytest.mark.parametrize("heads", [1, 2, 3, 6])
def test_any_number_of_heads_on_any_number_of_ranks(comm: Communicator, heads: int) -> None:
    assert_close(train(comm, "tensor", heads=heads), train_alone(heads=heads))


@pytest.mark.ranks(2)
@pytest.mark.parametrize("strategy", ["tensor", "pipeline"])
def test_split_models_draw_what_whole_ones_draw(comm: Communicator, strategy: str) -> None:
    """Dropout depends on seed, step and part; with shards these are the same everywhere."""
    options = {"dropout": 0.3, "shards": 2, "clip_norm": 0.5}
    assert_close(train(comm, strategy, **options), train_alone(**options))


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("strategy", ["allreduce", "central"])
def test_the_same_bits_on_any_number_of_ranks(comm: Communicator, strategy: str) -> None:
    options = {"dropout": 0.1, "shards": 3}
    digests = comm.allgather_objects(weights_digest(train(comm, strategy, **options)))
    assert set(digests) == {weights_digest(train_alone(**options))}


def test_single_equals_plain_torch_exactly() -> None:
    plain = make_model()
    stepper = Adam(plain.parameters(), lr=0.003)
    for epoch in range(2):
        for batch in batches(make_split(), batch_size=13, seed=5, epoch=epoch):
            inputs, targets = batch.whole()
            stepper.zero_grad()
            F.cross_entropy(plain(inputs), targets).backward()  # type: ignore[no-untyped-call]
            stepper.step()
    for one, other in zip(train_alone().parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.ranks(2)
def test_a_state_moves_between_strategies(comm: Communicator) -> None:
    """In the middle of an epoch, from pieces of heads to stages to the whole model."""
    model = make_model()
    trainer = Trainer(
        model, Adam(model.parameters(), lr=0.003), strategy="tensor", comm=comm, seed=5
    )
    trainer.fit(make_split(), epochs=1, batch_size=13, steps=2)
    for strategy in ("pipeline", "central"):
        trainer.rebind(strategy)
        trainer.fit(make_split(), epochs=1, batch_size=13, steps=2)
    trainer.fit(make_split(), epochs=1, batch_size=13)
    trainer.close()
    assert_close(model, train_alone())


def test_metrics_are_over_tokens() -> None:
    model = copy.deepcopy(train_alone())
    trainer = Trainer(
        model,
        Adam(model.parameters()),
        strategy="single",
        comm=SingleCommunicator(),
        metrics=("perplexity",),
    )
    split = make_split()
    metrics = trainer.evaluate(split)
    inputs, targets = split.take(torch.arange(len(split)))
    with torch.no_grad():
        outputs: Tensor = model(inputs)
    loss = F.cross_entropy(outputs, targets)
    assert metrics.loss == pytest.approx(loss.item(), rel=1e-5)
    assert metrics.accuracy == pytest.approx((outputs.argmax(1) == targets).double().mean().item())
    assert metrics.more["perplexity"] == pytest.approx(loss.exp().item(), rel=1e-5)
    assert metrics.count == len(split)
