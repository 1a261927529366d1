"""`local`: trained alone, averaged every few steps."""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from phalanx import data, models
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.batches import Batch, batches
from phalanx.data.split import Split
from phalanx.errors import UsageError
from phalanx.strategies.base import Loss, Strategy, Task
from phalanx.strategies.building_blocks.passes import CompiledPass
from phalanx.strategies.local.strategy import Local
from phalanx.strategies.single import Single
from phalanx.train.losses import make_loss
from phalanx.train.trainer import Trainer


def make_split(count: int = 40) -> Split:
    return data.load("digits").train.subset(torch.arange(count))


def make_model() -> nn.Module:
    torch.manual_seed(11)
    return models.build("mlp", input_shape=(1, 8, 8), classes=10, options={"hidden": (16,)})


def make_batches(size: int) -> list[Batch]:
    return list(batches(make_split(), batch_size=size, seed=5, epoch=0))


def weights_of(model: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def are_close(mine: list[Tensor], others: list[Tensor], tolerance: float = 1e-5) -> bool:
    pairs = zip(mine, others, strict=True)
    return all(torch.allclose(a, b, rtol=0, atol=tolerance) for a, b in pairs)


def train(
    comm: Communicator,
    strategy: Strategy,
    *,
    batch_size: int = 13,
    loss: Loss | None = None,
    sgd: dict[str, Any] | None = None,
    **options: Any,
) -> list[Tensor]:
    """The weights after an epoch; the last batch is smaller."""
    model = make_model()
    optimizer = SGD(model.parameters(), **(sgd or {"lr": 0.05}))
    task = Task(model, optimizer, loss or make_loss("cross-entropy"), seed=5, **options)
    worker = strategy.bind(comm, task)
    for batch in make_batches(batch_size):
        worker.step(batch)
    worker.sync()
    return weights_of(model)


@pytest.mark.ranks(2, 3, 4)
@pytest.mark.parametrize(("reduction", "rate"), [("mean", 0.05), ("sum", 0.005)])
# 40 samples in batches of 13 divide by no number of ranks; in batches of 3, and in the last one of
# 1, some ranks get none.
@pytest.mark.parametrize("batch_size", [12, 13, 3])
@pytest.mark.parametrize(
    "further", [{}, {"momentum": 0.9, "weight_decay": 0.01}], ids=["plain", "momentum"]
)
def test_averaging_every_step_equals_single(
    comm: Communicator, reduction: Any, rate: float, batch_size: int, further: dict[str, Any]
) -> None:
    options = {
        "loss": make_loss("cross-entropy", reduction),
        "batch_size": batch_size,
        "sgd": {"lr": rate, **further},
    }
    parallel = train(comm, Local(every=1), **options)  # type: ignore[arg-type]
    alone = train(SingleCommunicator(), Single(), **options)  # type: ignore[arg-type]
    assert not are_close(alone, weights_of(make_model()))
    assert are_close(parallel, alone)


@pytest.mark.ranks(3)
@pytest.mark.parametrize("compile_", [False, True], ids=["eager", "compiled"])
def test_accumulated_and_compiled_passes(
    comm: Communicator, monkeypatch: pytest.MonkeyPatch, compile_: bool
) -> None:
    # What a C++ compiler makes of it, and whether that is faster, is not what is tested here.
    monkeypatch.setattr(torch, "compile", lambda function, backend: function)
    monkeypatch.setattr(CompiledPass, "_choose", lambda compiled, *_samples: compiled._run)
    parallel = train(comm, Local(every=1), accumulate=2, compile=compile_)
    assert are_close(parallel, train(SingleCommunicator(), Single()))


def simulated(ranks: int, options: Local, *, clip: float | None = None) -> list[Tensor]:
    """What all ranks come to together, computed one after the other in plain torch: the outer
    optimizer is torch's SGD."""
    replicas = [make_model() for _ in range(ranks)]
    optimizers = [AdamW(replica.parameters(), lr=0.01) for replica in replicas]
    common = make_model()
    outer = SGD(
        common.parameters(),
        lr=options.outer_rate,
        momentum=options.outer_momentum,
        nesterov=options.outer_nesterov,
    )
    steps = make_batches(12)
    for number, batch in enumerate(steps, start=1):
        for rank, (replica, optimizer) in enumerate(zip(replicas, optimizers, strict=True)):
            step_alone(replica, optimizer, batch=batch, rank=rank, ranks=ranks, clip=clip)
        if number % options.every == 0 or number == len(steps):  # the test syncs at the end
            everywhere = zip(*map(weights_of, replicas), strict=True)
            for weights, same in zip(common.parameters(), everywhere, strict=True):
                weights.grad = weights.detach() - torch.stack(same).mean(0)
            outer.step()
            for replica in replicas:
                replica.load_state_dict(common.state_dict())
    return weights_of(common)


def step_alone(
    replica: nn.Module,
    optimizer: Optimizer,
    *,
    batch: Batch,
    rank: int,
    ranks: int,
    clip: float | None,
) -> None:
    inputs, targets = batch.part(rank, of=ranks)
    optimizer.zero_grad()
    weight = ranks * len(targets) / batch.size
    (F.cross_entropy(replica(inputs), targets) * weight).backward()  # type: ignore[no-untyped-call]
    if clip is not None:
        nn.utils.clip_grad_norm_(replica.parameters(), clip)
    optimizer.step()


DILOCO: dict[str, Any] = {"outer_rate": 0.7, "outer_momentum": 0.9, "outer_nesterov": True}


def adam_task(model: nn.Module, **options: Any) -> Task:
    adam = AdamW(model.parameters(), lr=0.01)
    return Task(model, adam, make_loss("cross-entropy"), **options)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize(
    ("options", "clip"),
    [
        (Local(every=1), None),
        (Local(every=3), 0.3),
        (Local(every=1, outer_momentum=0.5), None),
        (Local(every=2, outer_momentum=0.9), None),
        (Local(every=2, outer_rate=0.7), None),
        (Local(every=2, **DILOCO), None),
    ],
    ids=str,
)
def test_ranks_train_alone_and_meet(comm: Communicator, options: Local, clip: float | None) -> None:
    """Each rank's own Adam, its own clipped gradient, and an outer step like torch's."""
    model = make_model()
    worker = options.bind(comm, adam_task(model, clip_norm=clip))
    for batch in make_batches(12):
        worker.step(batch)
    worker.sync()
    assert are_close(weights_of(model), simulated(comm.size, options, clip=clip))


@pytest.mark.ranks(4)
def test_ranks_of_a_host_train_as_one(comm: Communicator, monkeypatch: pytest.MonkeyPatch) -> None:
    """As two ranks would; one of the four brings no samples to the last batch."""
    kind = type(comm)
    monkeypatch.setattr(kind, "host", lambda some: some.split(some.rank // 2, some.rank))
    options = Local(every=2, alone="host", **DILOCO)
    model = make_model()
    worker = options.bind(comm, adam_task(model, clip_norm=0.3))
    for batch in make_batches(12):
        worker.step(batch)
    worker.sync()
    assert are_close(weights_of(model), simulated(2, options, clip=0.3))
    monkeypatch.setattr(kind, "host", lambda some: some.split(0, some.rank))
    with pytest.raises(UsageError, match="4 ranks are on one host, which is one replica"):
        options.bind(comm, adam_task(make_model()))


@pytest.mark.ranks(2, 3)
def test_weights_differ_between_averages_and_agree_after_one(comm: Communicator) -> None:
    model = make_model()
    if comm.rank == 1:  # ranks may start differently: rank 0's weights are the ones
        nn.init.zeros_(next(model.parameters()))
    task = Task(model, SGD(model.parameters(), lr=0.1), make_loss("cross-entropy"))
    worker = Local(every=2).bind(comm, task)

    def agree() -> bool:
        everywhere = comm.allgather_objects(weights_of(model))
        return all(are_close(weights, everywhere[0], tolerance=0) for weights in everywhere)

    together = [agree()]
    for batch in make_batches(12)[:3]:
        worker.step(batch)
        together.append(agree())
    assert together == [True, False, True, False]
    worker.sync()
    assert agree()
    before = weights_of(model)
    worker.sync()
    assert are_close(weights_of(model), before, tolerance=0)
    worker.step(make_batches(12)[0])  # reading has changed nothing: this is the second step of two
    assert agree()


@pytest.mark.ranks(3)
def test_reading_twice_is_no_outer_step(comm: Communicator) -> None:
    model = make_model()
    task = Task(model, SGD(model.parameters(), lr=0.1), make_loss("cross-entropy"))
    worker = Local(every=1, outer_momentum=0.9).bind(comm, task)
    worker.step(make_batches(12)[0])
    before = weights_of(model)
    worker.sync()
    assert are_close(weights_of(model), before, tolerance=0)


class Branches(nn.Module):
    """A layer never used, one frozen, and one tied to another."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(64, 10).requires_grad_(False)
        self.norm = nn.BatchNorm2d(1)
        self.used = nn.Linear(10, 10)
        self.unused = nn.Linear(10, 10)
        self.tied = nn.Linear(10, 10)
        self.tied.weight = self.used.weight

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.tied(self.used(self.frozen(self.norm(inputs).flatten(1))))
        return outputs


@pytest.mark.ranks(3)
def test_unused_frozen_and_tied_parameters_and_statistics(comm: Communicator) -> None:
    torch.manual_seed(comm.rank)
    model = Branches()
    sgd = SGD(model.parameters(), lr=0.1, weight_decay=0.1, momentum=0.9)
    trainer = Trainer(model, sgd, strategy=Local(every=2), comm=comm)
    first = comm.broadcast_object(copy.deepcopy(model.state_dict()))
    # The last batch has 2 samples for 3 ranks: one of them has none, and no idea what is unused.
    trainer.fit(make_split(38), epochs=2, batch_size=12)
    trainer.sync()
    state = model.state_dict()
    for name, tensor in state.items():
        everywhere = comm.allgather_objects(tensor)
        assert all(torch.equal(tensor, other) for other in everywhere), name
        stays = name.startswith(("frozen", "unused"))
        # A mean of equal weights may be off in the last bit; weight decay would be off by percents.
        assert torch.allclose(tensor, first[name], rtol=1e-6, atol=0) == stays, name
    assert torch.equal(state["tied.weight"], state["used.weight"])


@pytest.mark.ranks(3)
def test_digits_are_learnt(comm: Communicator) -> None:
    digits = data.load("digits")
    torch.manual_seed(1)
    model = models.build("mlp", input_shape=(1, 8, 8), classes=10)
    sgd = SGD(model.parameters(), lr=0.1, momentum=0.9)
    trainer = Trainer(model, sgd, strategy=Local(every=4), comm=comm)
    trainer.fit(digits.train, epochs=6, batch_size=48)
    result = trainer.evaluate(digits.test)
    assert result.accuracy is not None
    assert result.accuracy >= 0.95


def test_refusals() -> None:
    with pytest.raises(UsageError, match="every must be at least 1, not 0"):
        Local(every=0)
    for momentum in (-0.1, 1.0, float("nan")):
        with pytest.raises(UsageError, match="outer_momentum must be from 0 to below 1"):
            Local(outer_momentum=momentum)
    kept = "single, allreduce, central, server, gather, pipeline, tensor"
    with pytest.raises(UsageError, match=f"leave out the shards, or .* that keep them: {kept}$"):
        train(SingleCommunicator(), Local(), shards=2)
