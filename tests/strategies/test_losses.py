"""Losses that are no plain mean over the samples: as plain torch has them, or refused."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.batches import batches
from phalanx.data.split import Split
from phalanx.errors import DivergedError, UsageError
from phalanx.strategies.allreduce import Allreduce
from phalanx.strategies.base import Loss, Strategy
from phalanx.strategies.central import Central
from phalanx.strategies.gather import Gather
from phalanx.strategies.pipeline.strategy import Pipeline
from phalanx.strategies.server import Server
from phalanx.strategies.single import Single
from phalanx.strategies.tensor.strategy import Tensor as TensorParallel
from phalanx.train.trainer import Trainer

WEIGHTS = torch.tensor([0.2, 1.0, 5.0])
LOSSES: dict[str, nn.Module] = {
    "plain": nn.CrossEntropyLoss(),
    "weighted": nn.CrossEntropyLoss(weight=WEIGHTS),
    "ignoring": nn.CrossEntropyLoss(ignore_index=1),
    "ignoring by default": nn.CrossEntropyLoss(),
    "all of it": nn.CrossEntropyLoss(weight=WEIGHTS, ignore_index=0, label_smoothing=0.2),
    "likelihood": nn.NLLLoss(weight=WEIGHTS),
    "sum": nn.CrossEntropyLoss(weight=WEIGHTS, reduction="sum"),
    "divergence": nn.KLDivLoss(reduction="batchmean"),
    "shares": nn.CrossEntropyLoss(weight=WEIGHTS),
    "smooth": nn.CrossEntropyLoss(weight=WEIGHTS, label_smoothing=0.1),
    "likelihood of some": nn.NLLLoss(weight=WEIGHTS, ignore_index=2),
    "sum of likelihoods": nn.NLLLoss(ignore_index=1, reduction="sum"),
    "yes or no": nn.BCEWithLogitsLoss(pos_weight=WEIGHTS),
    "weighed yes or no": nn.BCEWithLogitsLoss(weight=WEIGHTS, pos_weight=WEIGHTS, reduction="sum"),
    "squares": nn.MSELoss(),
    "sum of squares": nn.MSELoss(reduction="sum"),
    "distances": nn.SmoothL1Loss(),
}
#: Whose targets are a number for each output.
FLOATING = {"divergence", "shares", "yes or no", "weighed yes or no"}
FLOATING |= {"squares", "sum of squares", "distances"}
#: In which samples, or outputs, count differently.
WEIGHED = [
    *("all of it", "ignoring by default", "yes or no", "weighted", "smooth", "shares", "sum"),
    *("likelihood of some", "weighed yes or no"),
]
PARALLEL: dict[str, Strategy] = {
    "allreduce": Allreduce(),
    "overlap": Allreduce(overlap=True),
    "central": Central(),
    "gather": Gather(),
    "server": Server(),
    "pipeline": Pipeline(),
    "tensor": TensorParallel(),
}


def make_split(name: str) -> Split:
    draw = torch.Generator().manual_seed(5)
    inputs, targets = torch.randn(29, 4, generator=draw), torch.arange(29) % 3
    if name == "ignoring by default":
        targets[::4] = -100
    if name in FLOATING:
        targets = torch.rand(29, 3, generator=draw).softmax(1)
    if "yes or no" in name:
        targets = (targets > 1 / 3).float()
    # The targets of a class lie together, so that some parts of a batch have nothing that counts.
    return Split(inputs, targets if targets.dim() == 2 else targets.sort().values)


def make_model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3), nn.LogSoftmax(1))


def plain(name: str) -> list[Tensor]:
    """What a plain loop makes of the same batches."""
    model, split = make_model(), make_split(name)
    optimizer = SGD(model.parameters(), lr=0.01)
    for batch in batches(split, batch_size=8, seed=0, epoch=0):
        optimizer.zero_grad()
        samples = batch.whole()
        LOSSES[name](model(samples.inputs), samples.targets).backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def trained(
    name: str,
    strategy: Strategy,
    comm: Communicator,
    *,
    shards: int | None = None,
    accumulate: int = 1,
    compile: bool = False,  # noqa: A002
) -> tuple[list[Tensor], float]:
    """The weights, and the mean loss that the training saw."""
    model = make_model()
    optimizer = SGD(model.parameters(), lr=0.01)
    loss = copy.deepcopy(LOSSES[name])
    with Trainer(
        model,
        optimizer,
        loss=loss,
        strategy=strategy,
        comm=comm,
        shards=shards,
        accumulate=accumulate,
        compile=compile,
    ) as trainer:
        (epoch,) = trainer.fit(make_split(name), epochs=1, batch_size=8)
    return [parameter.detach() for parameter in model.parameters()], epoch.train.loss


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    ("shards", "accumulate"), [(None, 1), (None, 2), (None, 3), (4, 1), (8, 1)]
)
def test_one_rank_has_the_weights_of_plain_torch(
    name: str, shards: int | None, accumulate: int
) -> None:
    ours, _ = trained(name, Single(), SingleCommunicator(), shards=shards, accumulate=accumulate)
    for mine, theirs in zip(ours, plain(name), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("strategy", PARALLEL)
@pytest.mark.parametrize(("shards", "accumulate"), [(None, 1), (4, 1), (None, 2), (4, 2)])
def test_ranks_have_the_weights_of_plain_torch(
    comm: Communicator, strategy: str, shards: int | None, accumulate: int
) -> None:
    if (strategy == "overlap" and shards) or (strategy == "pipeline" and accumulate > 1):
        return  # refused: tests/strategies/test_rules.py
    for name in WEIGHED if (shards, accumulate) == (None, 1) else WEIGHED[:3]:
        ours, loss = trained(name, PARALLEL[strategy], comm, shards=shards, accumulate=accumulate)
        for mine, theirs in zip(ours, plain(name), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6, msg=name)
        _, alone = trained(name, Single(), SingleCommunicator())
        assert loss == pytest.approx(alone, rel=1e-5), name


def test_a_batch_without_anything_that_counts() -> None:
    """As torch has it: the weights stay, and a mean over nothing is no number."""
    model = make_model()
    split = Split(torch.randn(4, 4), torch.full((4,), -100))
    trainer = Trainer(model, SGD(model.parameters(), lr=0.1), comm=SingleCommunicator(), shards=2)
    with pytest.raises(DivergedError, match="the loss of epoch 1 is nan"):
        trainer.fit(split, epochs=1, batch_size=4)
    for mine, before in zip(model.parameters(), make_model().parameters(), strict=True):
        torch.testing.assert_close(mine, before, rtol=0, atol=0)


@pytest.mark.ranks(3)
def test_a_part_without_anything_that_counts_is_no_update(comm: Communicator) -> None:
    """Of `async`, for which every part is a batch of its own."""
    model = make_model()
    split = Split(torch.eye(8, 4), torch.tensor([0, 1, 2, 0, -100, -100, -100, -100]))
    trainer = Trainer(model, SGD(model.parameters(), lr=0.1), strategy="async", comm=comm)
    with trainer:
        (epoch,) = trainer.fit(split, epochs=1, batch_size=2)
    assert epoch.train.loss == pytest.approx(1.1, abs=1)
    assert all(bool(parameter.isfinite().all()) for parameter in model.parameters())


def test_evaluation_is_one_over_the_whole_split() -> None:
    """In chunks of 256, which weigh differently."""
    draw = torch.Generator().manual_seed(1)
    split = Split(torch.randn(600, 4, generator=draw), (torch.arange(600) // 200))
    model, loss = make_model(), nn.CrossEntropyLoss(weight=WEIGHTS)
    trainer = Trainer(model, SGD(model.parameters(), lr=0.1), loss=loss, comm=SingleCommunicator())
    expected = loss(model(split.inputs), split.targets).item()
    assert trainer.evaluate(split).loss == pytest.approx(expected, rel=1e-5)


def summed(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="sum")


def squares(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets).square()


def balanced(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, weight=WEIGHTS)


OWN: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], str]] = {
    "sum": (summed, "the loss summed is taken for a mean over the samples, and is a sum"),
    "square": (squares, "the loss squares is taken for a mean .* neither a mean nor a sum"),
    "weighted": (balanced, r"neither a mean nor a sum: say how it goes: .*weigh=…"),
}


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("strategy", ["allreduce", "central", "pipeline", "server"])
@pytest.mark.parametrize("own", OWN)
def test_what_cannot_be_known_is_refused(comm: Communicator, own: str, strategy: str) -> None:
    function, message = OWN[own]
    model = make_model()
    trainer = Trainer(
        model,
        SGD(model.parameters(), lr=0.01),
        loss=function,
        strategy=PARALLEL[strategy],
        comm=comm,
    )
    with pytest.raises(UsageError, match=message):
        trainer.fit(make_split("plain"), epochs=1, batch_size=12)


def test_a_loss_of_ones_own_on_one_rank_is_taken_as_it_is() -> None:
    model, other = make_model(), make_model()
    split = make_split("plain")
    optimizer, plain_one = SGD(model.parameters(), lr=0.01), SGD(other.parameters(), lr=0.01)
    Trainer(model, optimizer, loss=balanced, comm=SingleCommunicator()).fit(
        split, epochs=1, batch_size=8
    )
    for batch in batches(split, batch_size=8, seed=0, epoch=0):
        samples = batch.whole()
        plain_one.zero_grad()
        balanced(other(samples.inputs), samples.targets).backward()  # type: ignore[no-untyped-call]
        plain_one.step()
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


@pytest.mark.ranks(2)
def test_what_is_said_is_believed(comm: Communicator) -> None:
    """A weighted mean in the words of the error: the sum, and what some targets weigh."""
    loss = Loss(
        lambda outputs, targets: F.cross_entropy(outputs, targets, WEIGHTS, reduction="sum"),
        weigh=lambda targets: float(WEIGHTS[targets].sum()),
    )
    model = make_model()
    with Trainer(model, SGD(model.parameters(), lr=0.01), loss=loss, comm=comm) as trainer:
        trainer.fit(make_split("weighted"), epochs=1, batch_size=8)
    for mine, theirs in zip(model.parameters(), plain("weighted"), strict=True):
        torch.testing.assert_close(mine.detach(), theirs, rtol=1e-5, atol=1e-6)
