"""What layers take is found out without leaving a trace."""

import torch
from torch import nn

from phalanx.data.split import Samples
from phalanx.runs.weights import weights_digest
from phalanx.train.losses import make_loss
from phalanx.train.profiling.layer_times import layer_times


def test_every_layer_has_its_times() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Sequential(nn.Flatten(), nn.Linear(4 * 36, 10)),
    )
    samples = Samples(torch.randn(6, 1, 8, 8), torch.arange(6))
    before, random = weights_digest(model), torch.get_rng_state()
    table = layer_times(model.eval(), make_loss("cross-entropy"), samples)
    assert [row[0] for row in table.rows] == ["0", "1", "2", "3", "4.0", "4.1"]
    for row in (table.rows[0], table.rows[-1]):  # what computes: the convolution, the last layer
        assert float(row[2]) > 0
        assert float(row[3]) > 0
    assert weights_digest(model) == before
    assert torch.equal(torch.get_rng_state(), random)
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())
