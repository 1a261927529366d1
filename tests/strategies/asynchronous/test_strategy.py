"""`async`: dynamic parts, a bound on staleness, and one set of weights in the end."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam

from phalanx import data
from phalanx.comm.base import Communicator
from phalanx.comm.counted import CountedCommunicator, Traffic
from phalanx.comm.single import SingleCommunicator
from phalanx.data.split import Split
from phalanx.errors import UsageError
from phalanx.strategies.asynchronous.assignments import NONE_LEFT, Assignments, StalenessRecord
from phalanx.strategies.asynchronous.strategy import Asynchronous
from phalanx.strategies.base import Loss, Task
from phalanx.train.trainer import Trainer
from tests.strategies.server_cases import assert_equals_single, make_model, make_split


def updates_of(trainer: Trainer) -> tuple[dict[int, int], dict[int, int]]:
    """Collective. Updates by staleness and by rank, as the report has them."""
    staleness, parts = trainer.worker.report()
    assert (staleness.title, parts.title) == ("Staleness", "Parts")
    return (
        {int(first): int(second) for first, second, _ in staleness.rows},
        {int(first): int(second) for first, second, _ in parts.rows},
    )


def digits(count: int) -> Split:
    return data.load("digits").train.subset(torch.arange(count))


class Watched(nn.Module):
    """A linear model that calls a function before every pass."""

    def __init__(self, before: Callable[[], None]) -> None:
        super().__init__()
        self.before = before
        self.layers = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10))

    def forward(self, inputs: Tensor) -> Tensor:
        self.before()
        outputs: Tensor = self.layers(inputs)
        return outputs


def started(folder: Path) -> Counter[int]:
    """How many passes each rank has begun, of those that note it in this folder."""
    return Counter({int(file.name): file.stat().st_size for file in folder.iterdir()})


@pytest.mark.ranks(2, 4)
@pytest.mark.parametrize("case", ["simplecnn", "odd"])
def test_without_staleness_it_is_the_server(comm: Communicator, case: str) -> None:
    assert_equals_single(comm, Asynchronous(max_staleness=0), case)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("options", [{}, {"clip_norm": 0.1, "accumulate": 2}])
def test_one_worker_is_plain_training(comm: Communicator, options: dict[str, Any]) -> None:
    """With one worker nothing is ever stale: a plain loop over the batches, to the last bit."""
    weights = []
    for strategy, over in ((Asynchronous(), comm), ("single", SingleCommunicator())):
        model = make_model("odd")
        trainer = Trainer(
            model,
            Adam(model.parameters(), lr=0.01),
            strategy=strategy,
            comm=over,
            seed=5,
            **options,
        )
        trainer.fit(make_split(), epochs=2, batch_size=13)
        trainer.sync()
        weights.append(list(model.parameters()))
    for one, other in zip(*weights, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


@pytest.mark.ranks(3)
@pytest.mark.parametrize("aware", [False, True])
def test_learns_digits(comm: Communicator, aware: bool) -> None:
    samples = data.load("digits")
    model = make_model("mlp")
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.5)
    rates: list[float] = []
    optimizer.register_step_pre_hook(
        lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"])
    )
    strategy = Asynchronous(max_staleness=2, staleness_aware=aware)
    trainer = Trainer(model, optimizer, strategy=strategy, comm=comm)
    epochs = trainer.fit(samples.train, epochs=5, batch_size=32)
    assert [epoch.train.count for epoch in epochs] == [len(samples.train)] * 5
    assert (trainer.evaluate(samples.test).accuracy or 0.0) >= 0.95
    assert [group["lr"] for group in optimizer.param_groups] == [0.1]
    assert bool(optimizer.state) == (comm.rank == 0)
    staleness = updates_of(trainer)[0]
    if comm.rank == 0:  # a learning rate tells how stale its update was
        expected = staleness if aware else {0: sum(staleness.values())}
        assert Counter(round(0.1 / rate) - 1 for rate in rates) == expected


@pytest.mark.ranks(4)
@pytest.mark.parametrize("max_staleness", [1, 3])
def test_a_slow_worker_holds_up_nobody_within_the_bound(
    comm: Communicator, shared_path: Path, max_staleness: int
) -> None:
    """Rank 1 takes as long for a part of the first batch as the others for all that they may."""
    batches = max_staleness + 1
    others = batches * 3 - 1

    def wait() -> None:
        with (shared_path / str(comm.rank)).open("a") as file:
            file.write(".")
        slow = comm.rank == 1
        while started(shared_path)[1] == 0 or (slow and started(shared_path).total() <= others):
            time.sleep(0.001)

    model = Watched(wait)
    strategy = Asynchronous(max_staleness=max_staleness)
    trainer = Trainer(model, SGD(model.parameters(), lr=0.01), strategy=strategy, comm=comm)
    (epoch,) = trainer.fit(digits(12 * batches), epochs=1, batch_size=12)
    assert epoch.train.count == 12 * batches
    trainer.sync()
    staleness, parts = updates_of(trainer)
    assert sum(staleness.values()) == sum(parts.values()) == batches * 3
    assert parts[1] == 1
    assert parts[2] + parts[3] == others
    # When rank 1 was let go, each of the others may have had a part to finish.
    assert others - 2 <= max(staleness) <= others


@pytest.mark.ranks(3)
def test_all_ranks_have_the_same_weights_and_reports_after_sync(comm: Communicator) -> None:
    model = Watched(lambda: None)
    trainer = Trainer(model, SGD(model.parameters(), lr=0.01), strategy=Asynchronous(), comm=comm)
    trainer.sync()  # before the first step, and twice
    for _ in range(2):
        trainer.fit(digits(40), epochs=2, batch_size=10)
        trainer.sync()
        trainer.sync()
        mine = torch.cat([tensor.double().flatten() for tensor in model.state_dict().values()])
        assert all(torch.equal(mine, other) for other in comm.allgather_objects(mine))
    reports = comm.allgather_objects(trainer.worker.report())
    assert all(report == reports[0] for report in reports)
    assert sum(updates_of(trainer)[0].values()) == 4 * 4 * 2


@pytest.mark.ranks(4)
def test_empty_parts_are_nobodys(comm: Communicator) -> None:
    """Batches of one sample have one part, and the model is called but for that."""
    model = make_model("mlp")
    calls: list[int] = []
    model.register_forward_hook(lambda *_: calls.append(1))
    trainer = Trainer(model, SGD(model.parameters(), lr=0.01), strategy=Asynchronous(), comm=comm)
    (epoch,) = trainer.fit(make_split(), epochs=1, batch_size=1)
    assert epoch.train.count == 41
    assert sum(comm.allgather_objects(len(calls))) == 41
    assert sum(updates_of(trainer)[1].values()) == 41
    assert trainer.worker.trains == (comm.rank > 0)


@pytest.mark.ranks(3)
def test_a_part_costs_a_gradient_up_and_weights_down(comm: Communicator) -> None:
    model = make_model("mlp")
    traffic = Traffic()
    trainer = Trainer(
        model,
        SGD(model.parameters(), lr=0.01),
        strategy=Asynchronous(),
        comm=CountedCommunicator(comm, traffic),
    )
    before = traffic.bytes
    trainer.fit(make_split(), epochs=1, batch_size=13)
    sent = comm.allgather_objects(traffic.bytes - before)
    size = sum(parameter.numel() for parameter in model.parameters()) * 4
    parts = 4 * 2
    assert parts * size <= sent[0] < parts * size * 1.1
    assert parts * size <= sent[1] + sent[2] < parts * size * 1.1


def test_ledger_hands_out_no_more_than_the_bound() -> None:
    """Two parts a batch; batch 2 waits until batch 0 is applied."""
    ledger = Assignments(lead=1)
    assert [ledger.hand_out(0, parts=2) for _ in range(3)] == [0, 1, NONE_LEFT]
    assert [ledger.hand_out(1, parts=2) for _ in range(3)] == [0, 1, NONE_LEFT]
    assert ledger.hand_out(2, parts=2) is None
    ledger.apply(0)
    ledger.apply(1)
    ledger.apply(1)
    assert ledger.hand_out(2, parts=2) is None
    assert not ledger.settled
    ledger.apply(0)
    assert [ledger.hand_out(2, parts=2) for _ in range(2)] == [0, 1]
    assert ledger.hand_out(0, parts=2) == NONE_LEFT  # the slow one finds that out late
    ledger.apply(2)
    assert not ledger.settled
    ledger.apply(2)
    assert ledger.settled


def test_ledger_passes_over_a_batch_without_samples() -> None:
    ledger = Assignments(lead=0)
    assert ledger.hand_out(0, parts=0) == NONE_LEFT
    assert ledger.hand_out(1, parts=1) == 0


def test_long_tables_are_put_together() -> None:
    record = StalenessRecord()
    for staleness in range(40):
        record.add(rank=1 + staleness % 2, staleness=staleness)
    stale, parts = record.tables(range(1, 4))
    assert stale.rows[0] == ("0–2", "3", "7.5%")
    assert stale.rows[-1] == ("39–41", "1", "2.5%")
    assert parts.rows == (("1", "20", "50.0%"), ("2", "20", "50.0%"), ("3", "0", "0.0%"))


@pytest.mark.ranks(2)
def test_refuses_shards_with_staleness(comm: Communicator) -> None:
    model = make_model("mlp")
    task = Task(model, SGD(model.parameters(), lr=0.1), Loss(nn.MSELoss()), shards=2)
    with pytest.raises(UsageError, match="set max_staleness to 0, or leave out the shards"):
        Asynchronous().bind(comm, task)


def test_refuses_one_rank_and_negative_staleness() -> None:
    model = make_model("mlp")
    task = Task(model, SGD(model.parameters(), lr=0.1), Loss(nn.MSELoss()))
    with pytest.raises(UsageError, match="'async' needs 2 ranks or more"):
        Asynchronous().bind(SingleCommunicator(), task)
    with pytest.raises(UsageError, match="max_staleness must be 0 or more"):
        Asynchronous(max_staleness=-1)


@pytest.mark.ranks(3)
def test_a_worker_may_be_at_the_meeting_before_the_server_is(comm: Communicator) -> None:
    """Rank 2 holds up the last batch, while rank 1 has nothing to do but to sync."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    if comm.rank == 2:
        model.register_forward_pre_hook(lambda *_: time.sleep(0.2))
    optimizer = SGD(model.parameters(), lr=0.1)
    trainer = Trainer(model, optimizer, strategy=Asynchronous(max_staleness=2), comm=comm)
    split = data.load("digits").train.subset(torch.arange(30))
    for _ in range(2):
        trainer.fit(split, epochs=1, batch_size=10)
        trainer.sync()
    weights = comm.allgather_objects(next(model.parameters()).detach())
    assert all(torch.equal(weights[0], other) for other in weights)
