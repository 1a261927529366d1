"""`local`: ways in pieces while training goes on, and in fewer bytes."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch
from phalanx.strategies.local.strategy import Local
from tests.strategies.local.test_local import (
    DILOCO,
    adam_task,
    are_close,
    make_batches,
    make_model,
    step_alone,
    train,
    weights_of,
)


def streamed(ranks: int, options: Local, steps: list[Batch]) -> Tensor:
    """What a layer of 10 times 64 weights comes to, its halves exchanged while it trains."""
    replicas = [make_layer() for _ in range(ranks)]
    optimizers = [AdamW(replica.parameters(), lr=0.01) for replica in replicas]
    weights = [next(replica.parameters()).data.view(-1) for replica in replicas]
    common, changes = weights[0].clone(), torch.zeros(640)
    half = [slice(0, 320), slice(320, 640)]
    in_flight: tuple[slice, list[Tensor]] | None = None

    def land() -> None:
        if in_flight is not None:
            where, left = in_flight
            way = torch.stack(left).mean(0) - common[where]
            changes[where] = 0.9 * changes[where] + way
            common[where] += 0.7 * (way + 0.9 * changes[where])
            for one, was in zip(weights, left, strict=True):
                one[where] += common[where] - was

    for number, batch in enumerate(steps, start=1):
        for rank, (replica, optimizer) in enumerate(zip(replicas, optimizers, strict=True)):
            step_alone(replica, optimizer, batch=batch, rank=rank, ranks=ranks, clip=None)
        place = (number - 1) % options.every + 1
        if place in (options.every // 2, options.every):
            land()
            where = half[0] if place < options.every else half[1]
            in_flight = where, [one[where].clone() for one in weights]
    return torch.stack(weights).mean(0)


def make_layer() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False))


@pytest.mark.ranks(2, 3)
def test_pieces_are_exchanged_while_training_goes_on(comm: Communicator) -> None:
    """Each is taken when the next one is sent; reading is the mean, and changes nothing."""
    options = Local(every=4, pieces=2, **DILOCO)
    model, steps = make_layer(), make_batches(4)
    worker = options.bind(comm, adam_task(model))
    for number, batch in enumerate(steps[:8], start=1):
        worker.step(batch)
        if number == 4:
            before = streamed(comm.size, options, steps[:4])
            worker.sync()
            assert are_close([weights_of(model)[0].view(-1)], [before])
    worker.sync()
    found = weights_of(model)[0].view(-1)
    assert are_close([found], [streamed(comm.size, options, steps[:8])])
    assert len({one.numpy().tobytes() for one in comm.allgather_objects(found)}) == 1
    worker.close()


@pytest.mark.ranks(3)
@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({"compress": "int8"}, 0.02),
        ({"compress": "int4", "pieces": 2}, 0.15),
        ({"compress": "low-rank", "pieces": 2}, 0.5),
    ],
    ids=str,
)
def test_ways_are_exchanged_in_fewer_bytes(
    comm: Communicator, options: dict[str, Any], limit: float
) -> None:
    """What comes of it is near what comes of all bytes, and the same on all ranks."""
    strategy = Local(every=2, **options)
    exact = train(comm, replace(strategy, compress=None), batch_size=4)
    lossy = train(comm, strategy, batch_size=4)
    off, length = (
        torch.cat([(a - b).view(-1) for a, b in zip(lossy, other, strict=True)]).norm()
        for other in (exact, weights_of(make_model()))
    )
    assert 0 < off < limit * length
    everywhere = comm.allgather_objects(lossy)
    assert all(are_close(lossy, other, tolerance=0) for other in everywhere)
