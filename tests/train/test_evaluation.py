"""Evaluation and prediction over ranks."""

import pytest
import torch
from torch import nn

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.split import Split
from phalanx.train.evaluation import evaluate, predict
from phalanx.train.losses import make_loss


def make(count: int) -> tuple[nn.Module, Split]:
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(), nn.Linear(16, 3))
    return model, Split(torch.randn(count, 6), torch.randint(0, 3, (count,)))


@pytest.mark.ranks(2, 3, 4)
@pytest.mark.parametrize("count", [1, 255, 256, 700])
def test_any_number_of_ranks_predicts_the_same_bits(comm: Communicator, count: int) -> None:
    model, split = make(count)
    alone = predict(SingleCommunicator(), model, split, dtype=torch.float32)
    together = predict(comm, model, split, dtype=torch.float32)
    assert alone is not None
    assert model.training
    if comm.rank == 0:
        assert together is not None
        assert torch.equal(alone, together)
    else:
        assert together is None


@pytest.mark.ranks(3)
def test_evaluation_is_over_all_samples(comm: Communicator) -> None:
    model, split = make(700)
    loss = make_loss("cross-entropy")
    metrics = evaluate(comm, model, split, loss=loss, dtype=torch.float32)
    outputs = model.eval()(split.inputs)
    assert metrics.count == 700
    assert metrics.accuracy == (outputs.argmax(1) == split.targets).sum().item() / 700
    expected = nn.functional.cross_entropy(outputs, split.targets).item()
    assert metrics.loss == pytest.approx(expected, rel=1e-5)
