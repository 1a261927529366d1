"""Statistics under fixed shards: all shards begin alike, and their mean comes next."""

import pytest
import torch
from torch import nn

from phalanx.comm.single import SingleCommunicator
from phalanx.strategies.building_blocks.sharded_buffers import ShardedBuffers


def make_norm() -> nn.BatchNorm1d:
    norm = nn.BatchNorm1d(2, momentum=0.5)
    norm(torch.tensor([[1.0, 5.0], [3.0, 9.0]]))  # so that nothing begins at 0
    return norm


def statistics(norm: nn.Module) -> dict[str, list[float]]:
    return {name: buffer.reshape(-1).tolist() for name, buffer in norm.named_buffers()}


def test_every_shard_begins_with_what_there_was() -> None:
    norm = make_norm()
    buffers, before = ShardedBuffers(norm, SingleCommunicator(), shards=2), statistics(norm)
    buffers.begin()
    for shard in range(2):
        assert statistics(norm) == before
        norm(torch.full((2, 2), float(shard)))
        assert statistics(norm) != before
        buffers.record(shard)
    assert statistics(norm) == before


@pytest.mark.parametrize("batch_size", [8, 4, 3, 1])
def test_the_mean_is_of_the_shards_that_had_samples(batch_size: int) -> None:
    norm = make_norm()
    buffers = ShardedBuffers(norm, SingleCommunicator(), shards=4)
    mean = norm.get_buffer("running_mean").clone()
    buffers.begin()
    for shard in range(4):
        if shard < batch_size:
            norm(torch.full((2, 2), 10.0 * shard))
        buffers.record(shard)
    buffers.finish(batch_size)
    filled = min(4, batch_size)
    seen = torch.tensor([10.0 * shard for shard in range(filled)]).mean()
    assert torch.equal(norm.get_buffer("running_mean"), (mean + seen) / 2)
    assert norm.get_buffer("num_batches_tracked").item() == 2  # one more, however many shards


def test_counters_stay_exact() -> None:
    """As far as float64 goes, which is beyond float32."""
    norm = make_norm()
    buffers = ShardedBuffers(norm, SingleCommunicator(), shards=2)
    norm.get_buffer("num_batches_tracked").fill_(2**24)
    buffers.begin()
    for shard in range(2):
        norm(torch.ones(2, 2))
        buffers.record(shard)
    buffers.finish(2)
    assert norm.get_buffer("num_batches_tracked").item() == 2**24 + 1


def test_a_model_without_buffers() -> None:
    model = nn.Linear(2, 2)
    weight = model.weight.detach().clone()
    buffers = ShardedBuffers(model, SingleCommunicator(), shards=2)
    buffers.begin()
    buffers.record(0)
    buffers.finish(2)
    assert torch.equal(model.weight, weight)
