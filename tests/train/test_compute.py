"""Where training computes, and in what precision."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from phalanx import Trainer, models
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.batches import batches
from phalanx.data.split import Split
from phalanx.errors import UsageError
from phalanx.settings.rules import check_settings
from phalanx.settings.table import Settings
from phalanx.strategies.registry import STRATEGIES, default_strategy, gpu_obstacle
from phalanx.train.compute import choose_device, compute_in_tf32, spare_threads
from phalanx.train.session import open_session

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


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two threads to begin with, and afterwards as many as there were."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("name", "shape", "samples", "threads"),
    [
        ("mlp", (4,), 10, 1),
        ("mlp", (1, 8, 8), 64, 1),
        ("mlp", (1, 8, 8), 64_000, 2),
        ("simplecnn", (1, 8, 8), 64, 1),
        ("simplecnn", (1, 28, 28), 8, 1),
        ("simplecnn", (1, 28, 28), 64, 2),
        ("resnet20", (3, 32, 32), 1, 2),
    ],
)
@pytest.mark.usefixtures("two_threads")
def test_small_steps_are_computed_in_one_thread(
    name: str, shape: tuple[int, ...], samples: int, threads: int
) -> None:
    spare_threads(models.build(name, input_shape=shape, classes=10), shape, samples=samples)
    assert torch.get_num_threads() == threads


@pytest.mark.usefixtures("two_threads")
def test_threads_that_a_user_chose_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    iris = Settings(dataset="iris")
    open_session(iris, threads=2)
    assert torch.get_num_threads() == 2
    open_session(iris, threads=None)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(2)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    open_session(iris, threads=None)
    assert torch.get_num_threads() == 2


@needs_no_gpu
def test_without_a_gpu() -> None:
    comm = SingleCommunicator()
    for asked in ("auto", "cpu"):
        assert choose_device(comm, asked) == torch.device("cpu")
    with pytest.raises(UsageError, match=r"--device cuda: torch .* on rank 0 sees no GPU \(.*\)"):
        choose_device(comm, "cuda")


def test_gpus_are_for_every_strategy() -> None:
    assert default_strategy(2, central=False) == "allreduce"
    assert default_strategy(1, central=False) == "single"
    assert gpu_obstacle("allreduce", {"overlap": True, "compress": "fp16"}) is None
    assert gpu_obstacle("mine.py:Mine") is None
    check_settings(Settings(device="cuda"), 2)
    for name in STRATEGIES:
        assert gpu_obstacle(name) is None
    with pytest.raises(
        UsageError, match=r"--algorithm ring of strategy .* is for gradients in CPU"
    ):
        check_settings(Settings(device="cuda", algorithm="ring"), 2)
    with pytest.raises(UsageError, match=r"--compress int8 .* on GPUs take bf16 or fp16"):
        check_settings(Settings(device="cuda", strategy="allreduce", compress="int8"), 2)
    on_one = str(gpu_obstacle("central", {"overlap": True}))
    assert (
        "overlap True of strategy 'central' is for gradients in CPU memory: on GPUs leave" in on_one
    )
    assert "pieces 2 of strategy 'local'" in str(gpu_obstacle("local", {"pieces": 2}))


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


def test_evaluations_compute_as_the_training_does() -> None:
    seen: set[torch.dtype] = set()
    model = make_model()
    model[0].register_forward_hook(  # type: ignore[index]
        lambda module, inputs, outputs: None if module.training else seen.add(outputs.dtype)
    )
    optimizer = torch.optim.SGD(model.parameters())
    comm = SingleCommunicator()
    trainer = Trainer(model, optimizer, comm=comm, autocast=torch.bfloat16)
    trainer.evaluate(make_split())
    assert seen == {torch.bfloat16}


def test_tf32_is_of_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", asked.append)
    compute_in_tf32(torch.device("cuda"))
    assert asked == ["high"]
    with pytest.raises(UsageError, match="this computes on CPUs: leave it out"):
        open_session(Settings(dataset="iris", precision="tf32"), threads=1)
    with pytest.raises(UsageError, match="--precision tf32 is of GPUs: leave it out"):
        check_settings(Settings(precision="tf32", device="cpu"), 1)
    assert asked == ["high"]


@pytest.mark.ranks(2)
@pytest.mark.parametrize("strategy", ["central", "allreduce"])
def test_autocast_on_ranks(comm: Communicator, strategy: str) -> None:
    model = make_model()
    losses = train(model, comm, strategy=strategy, autocast=torch.bfloat16)
    assert losses[-1] < 0.7 * losses[0]
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_what_autocast_does_not_go_with() -> None:
    with pytest.raises(UsageError, match="--precision bf16 is not for strategy 'pipeline'"):
        check_settings(Settings(precision="bf16", strategy="pipeline"), 2)
    with pytest.raises(UsageError, match="--precision bf16 is not for compiled passes"):
        check_settings(Settings(precision="bf16", compile=True), 1)
    with pytest.raises(UsageError, match="--precision fp16 is not for compiled passes"):
        check_settings(Settings(precision="fp16", compile=True), 1)
    with pytest.raises(UsageError, match="autocast is not for compiled passes"):
        train(make_model(), SingleCommunicator(), autocast=torch.bfloat16, compile=True)
    with pytest.raises(UsageError, match="autocast is not for strategy 'tensor'"):
        train(make_model(), SingleCommunicator(), autocast=torch.bfloat16, strategy="tensor")


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
