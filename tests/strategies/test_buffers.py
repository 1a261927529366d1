"""Buffers of any kind: what no pass changes stays to the last bit, statistics are averaged."""

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from phalanx import Split, Trainer
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.strategies.building_blocks.clipping import clip_factor
from phalanx.strategies.building_blocks.whole_model import average_buffers

SPLIT = Split(torch.linspace(-1, 1, 48).view(12, 4), torch.arange(12) % 3)
STRATEGIES = ["allreduce", "central", "gather", "server", "local", "async", "tensor"]


class Buffers(nn.Module):
    """A linear layer among buffers of all kinds: most stay, one is a mean, one a spectrum."""

    mask: Tensor
    mean: Tensor
    spectrum: Tensor
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.layer = nn.Linear(4, 3)
        self.register_buffer("mask", torch.full((3,), torch.finfo(torch.float32).min))
        self.register_buffer("third", torch.tensor([1 / 3, 0.1, 1e-40]))
        self.register_buffer("precise", torch.tensor([1 / 3, 0.1], dtype=torch.float64))
        self.register_buffer("wave", torch.tensor([1 + 2j, 0.1 - 1j]))
        self.register_buffer("number", torch.tensor(2**53 + 1))
        self.register_buffer("switch", torch.tensor([True, False]))
        self.register_buffer("zero", torch.tensor(-0.0))
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("spectrum", torch.zeros(1, dtype=torch.complex64))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            with torch.no_grad():
                self.mean.copy_(inputs.mean(0))
                self.spectrum.copy_(torch.complex(inputs.mean(), inputs.mean() + 1))
                self.calls += 1
        outputs: Tensor = self.layer(inputs)
        return outputs + torch.zeros_like(self.mask).masked_fill(self.mask > 0, 1.0)


def trained(comm: Communicator, strategy: str, shards: int | None) -> Buffers:
    model = Buffers()
    optimizer = SGD(model.parameters(), lr=0.01)
    with Trainer(model, optimizer, strategy=strategy, comm=comm, shards=shards) as trainer:
        trainer.fit(SPLIT, epochs=1, batch_size=12)
    return model


def bits(tensor: Tensor) -> list[int]:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).tolist()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("shards", [None, 4])
def test_what_no_pass_changes_stays(comm: Communicator, strategy: str, shards: int | None) -> None:
    if shards is not None and strategy in ("local", "async"):
        return  # refused: tests/strategies/test_rules.py
    model, before = trained(comm, strategy, shards), Buffers()
    for name in ("mask", "third", "precise", "wave", "number", "switch", "zero"):
        assert bits(getattr(model, name)) == bits(getattr(before, name)), name


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("strategy", ["allreduce", "central", "gather", "server"])
def test_statistics_are_averaged(comm: Communicator, strategy: str) -> None:
    """12 samples in equal parts: the mean of their means is the mean of all."""
    model = trained(comm, strategy, shards=4)
    mean = SPLIT.inputs.mean(0)
    torch.testing.assert_close(model.mean, mean)
    torch.testing.assert_close(model.spectrum, torch.complex(mean.mean(), mean.mean() + 1)[None])
    assert int(model.calls) == 1
    alone = trained(SingleCommunicator(), "single", shards=4)
    assert [bits(one) for one in model.buffers()] == [bits(one) for one in alone.buffers()]
    model = trained(comm, strategy, shards=None)
    torch.testing.assert_close(model.mean, mean)
    torch.testing.assert_close(model.spectrum, torch.complex(mean.mean(), mean.mean() + 1)[None])


@pytest.mark.ranks(3)
def test_who_only_serves_gets_what_the_others_have(comm: Communicator) -> None:
    model = Buffers()
    model.mean.fill_(comm.rank)
    model.calls.fill_(7 if comm.rank else 0)
    average_buffers(comm, model, serving=1)
    assert model.mean.tolist() == [1.5] * 4
    assert int(model.calls) == 7


def test_the_factor_of_a_norm_that_is_no_number() -> None:
    """As in torch, whose clip_grad_norm_ then makes every gradient NaN."""
    assert clip_factor(torch.tensor([float("nan"), 1.0]), 1.0) != clip_factor(torch.ones(1), 1.0)
    weight = nn.Parameter(torch.ones(2))
    weight.grad = torch.tensor([float("nan"), 1.0])
    nn.utils.clip_grad_norm_([weight], 1.0)
    factor = clip_factor(torch.tensor([float("nan")], dtype=torch.float64), 1.0)
    assert weight.grad.isnan().all()
    assert factor != factor
    assert clip_factor(torch.tensor([float("inf")]), 1.0) == 0.0
