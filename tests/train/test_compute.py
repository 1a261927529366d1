"""Where training computes, and in what precision."""

import pytest
import torch
from torch import nn

from phalanx import Trainer
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.batches import batches
from phalanx.data.split import Split
from phalanx.errors import UsageError
from phalanx.exchange.flat import FlatParameters
from phalanx.settings.rules import check_settings
from phalanx.settings.table import Settings
from phalanx.strategies.central import Central
from phalanx.strategies.registry import default_strategy, gpu_obstacle
from phalanx.train.compute import choose_device

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU here")


def make_split(count: int = 96) -> Split:
    random = torch.Generator().manual_seed(1)
    inputs = torch.randn(count, 6, generator=random)
    return Split(inputs, (inputs.sum(1) > 0).long())


def make_model() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))


def train(
    model: nn.Module, comm: Communicator | None = None, *, epochs: int = 4, **options: object
) -> list[float]:
    """The loss of each epoch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    trainer = Trainer(model, optimizer, comm=comm, **options)  # type: ignore[arg-type]
    done = trainer.fit(make_split(), epochs=epochs, batch_size=16)
    trainer.sync()
    return [epoch.train.loss for epoch in done]


def test_samples_move_to_the_device_of_a_batch() -> None:
    there = torch.device("meta")
    batch = next(batches(make_split(), batch_size=8, seed=0, epoch=0, device=there))
    for samples in (batch.whole(), batch.part(1, of=3)):
        assert {tensor.device for tensor in samples} == {there}


def test_flat_storage_is_where_the_model_is() -> None:
    flat = FlatParameters(make_model().to("meta"))
    assert {block.values.device.type for block in flat.blocks} == {"meta"}
    assert {view.device.type for block in flat.blocks for view in block.row_views[0]} == {"meta"}


@needs_no_gpu
def test_without_a_gpu() -> None:
    comm = SingleCommunicator()
    for asked in ("auto", "cpu"):
        assert choose_device(comm, asked) == torch.device("cpu")
    with pytest.raises(UsageError, match=r"--device cuda: torch .* on rank 0 sees no GPU \(.*\)"):
        choose_device(comm, "cuda")


def test_gpus_are_for_some_strategies() -> None:
    assert default_strategy(2, central=False) == "allreduce"
    assert default_strategy(1, central=False) == "single"
    assert gpu_obstacle("allreduce", ["overlap"]) is None
    assert gpu_obstacle("mine.py:Mine") is None
    check_settings(Settings(device="cuda"), 2)
    with pytest.raises(UsageError, match="strategy 'central' trains in CPU memory alone: on GPUs"):
        check_settings(Settings(device="cuda", strategy="central"), 2)
    with pytest.raises(UsageError, match="--compress is for gradients in CPU memory"):
        check_settings(Settings(device="cuda", compress="fp16"), 2)
    model = make_model().to("meta")
    optimizer = torch.optim.SGD(model.parameters())
    with pytest.raises(UsageError, match="strategy 'central' trains in CPU memory alone"):
        Trainer(model, optimizer, comm=SingleCommunicator(), strategy=Central())


def test_autocast_computes_in_16_bits_and_keeps_weights_in_32() -> None:
    seen: set[torch.dtype] = set()
    model = make_model()
    model[0].register_forward_hook(  # type: ignore[index]
        lambda module, inputs, outputs: seen.add(outputs.dtype)
    )
    losses = train(model, SingleCommunicator(), autocast=torch.bfloat16)
    assert seen == {torch.bfloat16}
    assert losses[-1] < 0.7 * losses[0]
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    plain = train(make_model(), SingleCommunicator())
    assert losses == pytest.approx(plain, rel=0.05)
    assert losses != plain


@pytest.mark.ranks(2)
@pytest.mark.parametrize("strategy", ["central", "allreduce"])
def test_autocast_on_ranks(comm: Communicator, strategy: str) -> None:
    model = make_model()
    losses = train(model, comm, strategy=strategy, autocast=torch.bfloat16)
    assert losses[-1] < 0.7 * losses[0]
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_what_autocast_does_not_go_with() -> None:
    with pytest.raises(UsageError, match="--autocast is not for strategy 'pipeline'"):
        check_settings(Settings(autocast="bfloat16", strategy="pipeline"), 2)
    with pytest.raises(UsageError, match="--autocast is not for compiled passes"):
        check_settings(Settings(autocast="bfloat16", compile=True), 1)
    with pytest.raises(UsageError, match="autocast is not for compiled passes"):
        train(make_model(), SingleCommunicator(), autocast=torch.bfloat16, compile=True)
    with pytest.raises(UsageError, match="autocast is not for strategy 'tensor'"):
        train(make_model(), SingleCommunicator(), autocast=torch.bfloat16, strategy="tensor")


@pytest.mark.ranks(2)
@pytest.mark.parametrize("shards", [None, 4])
def test_training_over_torch_distributed(comm: Communicator, shards: int | None) -> None:
    """The way that GPUs go, in CPU memory: the weights are those of MPI's way."""
    from phalanx.comm.device.distributed import DistributedCommunicator

    here, there = make_model(), make_model()
    over_gloo = DistributedCommunicator(comm, torch.device("cpu"))
    train(here, comm, strategy="allreduce", shards=shards)
    train(there, over_gloo, strategy="allreduce", shards=shards)
    for ours, theirs in zip(here.state_dict().values(), there.state_dict().values(), strict=True):
        torch.testing.assert_close(ours, theirs)


@needs_gpu
@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("strategy", [None, "local"])
def test_training_on_gpus(comm: Communicator, strategy: str | None) -> None:
    from phalanx.comm.device.on_device import on_device

    device = choose_device(comm, "cuda")
    model, expected = make_model().to(device), make_model()
    losses = train(model, on_device(comm, device), strategy=strategy)
    assert losses == pytest.approx(train(expected, comm, strategy=strategy), rel=1e-3)
    assert {parameter.device for parameter in model.parameters()} == {device}


@needs_gpu
@pytest.mark.ranks(2)
def test_collectives_of_gpus(comm: Communicator) -> None:
    from phalanx.comm.device.on_device import on_device
    from phalanx.comm.device.staged import StagedCommunicator

    device = choose_device(comm, "cuda")
    for world in (on_device(comm, device), StagedCommunicator(comm)):
        total = torch.full((5,), comm.rank + 1.0, device=device)
        world.allreduce(total)
        assert total.tolist() == [3.0] * 5
        whole = torch.zeros(3, device=device)
        world.allgather(total[: comm.rank + 1], whole, counts=[1, 2])
        assert whole.tolist() == [3.0] * 3
