"""What each rank's own samples came to."""

import pytest
import torch
from torch import nn

from phalanx.comm.base import Communicator
from phalanx.data.split import Split
from phalanx.train.epoch import network_rows
from phalanx.train.metrics import Metrics
from phalanx.train.progress import Networks, Silent
from phalanx.train.trainer import Trainer


@pytest.mark.ranks(2)
def test_the_networks_make_up_the_whole(comm: Communicator) -> None:
    torch.manual_seed(3)
    split = Split(torch.randn(21, 4), torch.randint(3, (21,)))
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = Trainer(model, optimizer, strategy="allreduce", comm=comm)
    networks = Networks(Silent())
    epochs = trainer.fit(split, epochs=2, batch_size=5, progress=networks)
    everyone = comm.allgather_objects(networks.mine)
    for whole, parts in zip(epochs, zip(*everyone, strict=True), strict=True):
        assert sum(one.count for one in parts) == whole.train.count == 21
        mean = sum(one.loss * one.count for one in parts) / 21
        assert mean == pytest.approx(whole.train.loss, rel=1e-6)
    assert everyone[0] != everyone[1]
    trainer.close()


def test_a_rank_without_samples_has_no_row() -> None:
    rows = network_rows(3, [Metrics(0.0, 0.0, 0), Metrics(2.0, 0.25, 4)])
    assert rows == [{"epoch": 3, "rank": 1, "samples": 4, "loss": 2.0, "accuracy": 0.25}]
