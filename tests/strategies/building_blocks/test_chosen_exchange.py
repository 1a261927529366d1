"""`--exchange auto --lossy`: which way is taken, and that a training goes on in it."""

import pytest
import torch
from torch import nn
from torch.optim import SGD

from phalanx import data
from phalanx.comm.base import Communicator
from phalanx.exchange.compressions import COMPRESSIONS, share_sent
from phalanx.exchange.flat import FlatParameters
from phalanx.strategies.allreduce import Allreduce
from phalanx.strategies.building_blocks.chosen_exchange import choose
from phalanx.train.trainer import Trainer


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({None: 1.0, "bf16": 1.0, "int8": 1.0}, None),
        ({None: 1.04, "bf16": 1.0, "int8": 1.0}, None),
        ({None: 2.0, "bf16": 1.0, "int8": 0.98}, "bf16"),
        ({None: 2.0, "bf16": 1.0, "int8": 0.5, "low-rank": 0.49}, "int8"),
        ({None: 2.0, "bf16": 1.0, "int8": 0.5, "low-rank": 0.1}, "low-rank"),
    ],
)
def test_what_loses_least_of_the_fastest(seconds: dict[str | None, float], chosen: str) -> None:
    assert choose(seconds) == chosen


def test_how_much_is_sent() -> None:
    blocks = FlatParameters(nn.Linear(640, 640, bias=False)).blocks
    shares = {name: share_sent(name, blocks, rank=2) for name in (None, *COMPRESSIONS)}
    assert shares == {
        None: 1.0,
        "bf16": 0.5,
        "fp16": pytest.approx(0.5, rel=1e-4),
        "int8": 0.25 * (1 + 4 / 256),
        "int4": 0.125 * (1 + 8 / 64),
        "low-rank": 2 * (640 + 640) / 640**2,
    }


@pytest.mark.ranks(2)
def test_a_training_goes_on_in_the_way_that_was_chosen(
    comm: Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "phalanx.strategies.building_blocks.chosen_exchange"
    monkeypatch.setattr(f"{module}.choose", lambda seconds: "int8")

    def fit(steps: int, *, state: object = None) -> tuple[Trainer, list[str]]:
        torch.manual_seed(3)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        optimizer = SGD(model.parameters(), lr=0.1)
        trainer = Trainer(model, optimizer, strategy=Allreduce(lossy=True), comm=comm)
        if state is not None:
            trainer.load(state)  # type: ignore[arg-type]
        trainer.fit(data.load("digits").train, epochs=1, batch_size=16, steps=steps)
        return trainer, [table.title for table in trainer.worker.report()]

    trainer, titles = fit(2)
    assert titles == []
    trainer.close()
    trainer, (title,) = fit(6)
    assert title.startswith("--exchange auto --lossy took int8: a step computes ")
    state = trainer.state()
    trainer.close()
    lost = "strategy/error feedback/1.weight"
    assert state.tensor(lost).abs().max() > 0
    weights = trainer.model.state_dict().values()
    for other in comm.allgather_objects([one.clone() for one in weights]):
        assert all(torch.equal(one, two) for one, two in zip(weights, other, strict=True))
    # What was lost before waits until there is somebody again who adds it.
    again, _ = fit(4, state=state)
    assert not torch.equal(again.state().tensor(lost), torch.zeros(10, 64))
    again.close()
