"""Stages lay out their images as is fastest, and train the same."""

import pytest
import torch
from torch import nn

from phalanx import data
from phalanx.comm.base import Communicator
from phalanx.strategies.pipeline.layout import prefers_channels_first
from phalanx.strategies.pipeline.strategy import Pipeline
from phalanx.strategies.pipeline.transfer import Form
from tests.strategies.pipeline.cases import assert_parity, heavy_end, train


def is_channels_last(model: nn.Module, layer: str) -> bool:
    weight = model.get_parameter(f"{layer}.weight")
    return weight.is_contiguous(memory_format=torch.channels_last) and not weight.is_contiguous()


def test_few_samples_beside_many_weights() -> None:
    layers = [nn.Conv2d(8, 16, 3), nn.Flatten()]  # 1,152 weights
    outputs = [Form((16, 2, 2), torch.float32, (0, 1, 2, 3)), Form((64,), torch.float32, (0, 1))]
    assert prefers_channels_first(layers, outputs, samples=3)
    assert not prefers_channels_first(layers, outputs, samples=4)
    assert not prefers_channels_first(layers, ["gives a tuple", outputs[1]], samples=3)
    assert not prefers_channels_first([nn.Linear(64, 64)], outputs[1:], samples=1)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("optimizer", ["sgd", "fused"])
def test_stages_in_two_orders_equal_single(comm: Communicator, optimizer: str) -> None:
    cut = (3,) if comm.size == 2 else (3, 4)
    assert_parity(comm, Pipeline(cut=cut), heavy_end, optimizer=optimizer, epochs=2)


@pytest.mark.ranks(2)
def test_the_stage_with_many_weights_has_channels_first(comm: Communicator) -> None:
    _, trainer = train(comm, Pipeline(cut=(3,)), heavy_end)
    trainer.sync()
    assert is_channels_last(trainer.model, "0.1")
    assert not is_channels_last(trainer.model, "4")
    everyone = comm.allgather_objects([one.tolist() for one in trainer.model.parameters()])
    assert everyone[0] == everyone[1]


@pytest.mark.ranks(2)
def test_an_order_that_was_asked_for_stays(comm: Communicator) -> None:
    _, trainer = train(comm, Pipeline(cut=(3,)), heavy_end, memory_format="channels-last")
    trainer.sync()
    assert is_channels_last(trainer.model, "4")


@pytest.mark.ranks(2)
def test_what_the_optimizer_keeps_goes_along(comm: Communicator) -> None:
    """Momentum from before the cut, in the order that the model had then."""
    _, whole = train(comm, "allreduce", heavy_end, optimizer="fused")
    whole.rebind(Pipeline(cut=(3,)))
    _, reference = train(comm, "allreduce", heavy_end, optimizer="fused")
    samples = data.load("digits").train.subset(torch.arange(67))
    for trainer in (whole, reference):
        trainer.fit(samples, epochs=1, batch_size=13)
        trainer.sync()
    for mine, other in zip(whole.model.parameters(), reference.model.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-5)
