"""Metrics over ranks are those of all samples together."""

import pytest
import torch

from phalanx.comm.base import Communicator
from phalanx.train.metrics import Meter


@pytest.mark.ranks(1, 2, 4)
def test_totals_are_over_samples_not_over_ranks(comm: Communicator) -> None:
    """Rank r has r + 1 samples, all right on rank 0 alone: an average of averages would differ."""
    meter = Meter()
    count = comm.rank + 1
    targets = torch.zeros(count, dtype=torch.int64)
    outputs = torch.tensor([[1.0, 0.0] if comm.rank == 0 else [0.0, 1.0]]).repeat(count, 1)
    meter.add(float(comm.rank), outputs, targets)
    meter.add(0.0, None, targets[:0])
    total = meter.total(comm)
    samples = sum(range(1, comm.size + 1))
    assert total.count == samples
    assert total.accuracy == 1 / samples
    assert total.loss == sum(range(comm.size)) / samples
