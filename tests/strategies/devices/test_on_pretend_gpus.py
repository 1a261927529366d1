"""Every strategy on a GPU that is none: no mix of devices, and no wait for it inside of a step."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from phalanx import Callback, Trainer
from phalanx.comm.base import Communicator
from phalanx.comm.device.distributed import DistributedCommunicator
from phalanx.comm.device.staged import StagedCommunicator
from phalanx.comm.single import SingleCommunicator
from phalanx.exchange.flat import FlatParameters
from phalanx.exchange.rows import RowSum
from phalanx.exchange.sums import Sums
from phalanx.observe.doctor.device_trials import Ranks, trials, try_out
from phalanx.strategies.allreduce import Allreduce
from phalanx.strategies.building_blocks.preserve import preserved
from phalanx.strategies.building_blocks.randomness import seed_part
from phalanx.train.losses import make_loss
from phalanx.train.metrics import Meter
from phalanx.train.profiling.layer_times import layer_times
from tests.strategies.devices.pretend_gpu import (
    CPU,
    CUDA,
    MixedDevicesError,
    PretendGpu,
    pretended_gpu,
)
from tests.strategies.devices.test_over_torch import TRIED, takes
from tests.strategies.test_parity import OPTIMIZERS, assert_close, make_model, make_split


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[PretendGpu]:
    with pretended_gpu(monkeypatch) as one:
        yield one


class Counted(Callback):
    """Looks who waits for the GPU from the third step on: the first have things to find out."""

    def __init__(self, gpu: PretendGpu) -> None:
        self._gpu = gpu
        self.waits: set[str] = set()

    def on_step_begin(self, trainer: Any) -> None:
        if trainer.position.step == 2:
            self._gpu.waits.clear()

    def on_step_end(self, trainer: Any, outcome: Any) -> None:
        if trainer.position.step > 2:
            self.waits.update(self._gpu.waits)


def train(
    model: nn.Module, comm: Communicator, strategy: Any, counted: Counted | None, **options: Any
) -> list[Tensor]:
    trainer = Trainer(
        model,
        OPTIMIZERS["sgd"](model.parameters()),
        loss=make_loss("cross-entropy", "mean"),
        strategy=strategy,
        comm=comm,
        seed=5,
        **options,
    )
    callbacks = [] if counted is None else [counted]
    trainer.fit(make_split(56), epochs=1, batch_size=14, callbacks=callbacks)
    trainer.close()
    return [one.detach().cpu() for one in model.state_dict().values()]


def on_gpus(comm: Communicator) -> Communicator:
    """Collective. The ranks as they are where each has a GPU of its own."""
    if comm.size == 1:
        return SingleCommunicator()
    return DistributedCommunicator(StagedCommunicator(comm), CUDA)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("strategy", TRIED)
@pytest.mark.parametrize("how", ["clipped", "normalised"])
def test_a_step_of_every_strategy(
    comm: Communicator, gpu: PretendGpu, strategy: str, how: str
) -> None:
    chosen = TRIED[strategy]
    if not takes(chosen, comm.size) or (how == "normalised" and strategy == "local"):
        return
    name = "normalised" if how == "normalised" else "deep mlp"
    options: dict[str, Any] = {"shards": 4} if how == "normalised" else {}
    if how == "clipped" and strategy != "local":  # which clips by itself
        options = {"clip_norm": 0.1}
    expected = train(make_model(name), SingleCommunicator(), "single", None, **options)
    assert gpu.started == 0
    counted = Counted(gpu)
    found = train(make_model(name).to("cuda"), on_gpus(comm), chosen, counted, **options)
    assert gpu.started > 0
    assert counted.waits == set(), str(counted.waits)
    assert_close(found, expected, 1e-5)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("compress", ["bf16", "fp16"])
def test_gradients_in_16_bits(comm: Communicator, gpu: PretendGpu, compress: str) -> None:
    strategy = Allreduce(compress=compress, bucket_bytes=1 << 12)
    expected = train(make_model("deep mlp"), SingleCommunicator(), "single", None)
    counted = Counted(gpu)
    found = train(make_model("deep mlp").to("cuda"), on_gpus(comm), strategy, counted)
    assert counted.waits == set(), str(counted.waits)
    assert_close(found, expected, 2e-3)
    with pytest.raises(AssertionError):  # it was rounded
        assert_close(found, expected, 1e-7)


@pytest.mark.ranks(2)
def test_gradients_go_during_the_backward_pass_unless_told_otherwise(
    comm: Communicator, gpu: PretendGpu
) -> None:
    model = make_model("deep mlp").to("cuda")
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    with Trainer(model, optimizer, strategy="allreduce", comm=on_gpus(comm)) as trainer:
        overlap = trainer.worker._exchange._overlap  # type: ignore[attr-defined]
        assert isinstance(overlap._stream, Sums)  # no thread sees to it
        assert len(overlap._buckets) == 1  # of 16 MiB, which all of it is smaller than


def test_flat_storage_is_where_the_model_is(gpu: PretendGpu) -> None:
    flat = FlatParameters(make_model("deep mlp").to("cuda"))
    assert {block.values.device for block in flat.blocks} == {CUDA}
    assert {view.device for block in flat.blocks for view in block.row_views[0]} == {CUDA}
    assert {block.marks().device for block in flat.blocks} == {CPU}


def test_rows_are_added_up_by_few_kernels(gpu: PretendGpu) -> None:
    rows = torch.ones(8, 25_000_000 // 64, device="cuda")
    total = RowSum(rows, slice(0, rows.shape[1]))
    before = gpu.started
    total.add_up()
    assert gpu.started - before == 7


def test_outputs_are_not_kept_beyond_a_few_megabytes(gpu: PretendGpu) -> None:
    meter = Meter()
    targets = torch.zeros(64, dtype=torch.long, device="cuda")
    outputs = torch.zeros(64, 50_000, device="cuda")
    gpu.waits.clear()
    for _ in range(6):
        meter.add(torch.ones((), dtype=torch.float64, device="cuda"), outputs, targets)
        assert sum(one.nbytes for one, _ in meter._kept) < 32 << 20
    assert gpu.waits == []
    assert meter.mine.loss == pytest.approx(6 / (6 * 64))
    assert gpu.waits != []


def test_the_stand_in_sees_mixed_devices_and_waits(gpu: PretendGpu) -> None:
    there, here = torch.ones(3, device="cuda"), torch.ones(3)
    assert (there.device, (there * 2).device, here.device) == (CUDA, CUDA, CPU)
    with pytest.raises(MixedDevicesError):
        there + here
    for look in (lambda: there.sum().item(), lambda: bool(there[0] > 0), there.tolist, there.cpu):
        gpu.waits.clear()
        look()
        assert len(gpu.waits) == 1
    assert there.cpu().device == CPU
    assert here.to("cuda").device == CUDA


def test_layers_are_timed_until_the_gpu_is_done(gpu: PretendGpu) -> None:
    model, samples = make_model("deep mlp").to("cuda"), make_split(8).take(torch.arange(8))
    layer_times(model, make_loss("cross-entropy", "mean"), samples.to(CUDA))
    layers = [one for one in model.modules() if not list(one.children())]
    waits = [one for one in gpu.waits if one.startswith("synchronize")]
    assert len(waits) >= 6 * 2 * len(layers)  # before and after each, in six passes


def test_random_numbers_of_the_models_gpu(gpu: PretendGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model("deep mlp").to("cuda")
    asked: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(torch.cuda, "set_rng_state", lambda state, device: asked.append(device))
        with preserved([model]):
            pass
        patched.setattr(torch.cuda, "is_initialized", lambda: True)
        patched.setattr(torch.cuda, "manual_seed_all", lambda number: asked.append("all"))
        seed_part(1, 2, 3)
    assert asked == [CUDA, "all"]


#: What no GPU that is none can show.
REAL = ("pinning", "half precision", "scaled losses", "memory")


@pytest.mark.ranks(2)
def test_what_the_doctor_tries(comm: Communicator, gpu: PretendGpu) -> None:
    """Collectives, evaluations, checkpoints to CPUs and back: with tensors on a device."""
    ranks = Ranks(comm, on_gpus(comm), CUDA)
    tried = {name: trial for name, trial in trials() if name not in REAL}
    found = {name: try_out(ranks, trial) for name, trial in tried.items()}
    wrong = {name: one["said"] for name, one in found.items() if one["verdict"] != "fine"}
    assert set(wrong) == {"strategy single"}, wrong


def test_evaluations_and_predictions(gpu: PretendGpu) -> None:
    def outcome(model: nn.Module) -> tuple[Any, Tensor]:
        optimizer = OPTIMIZERS["sgd"](model.parameters())
        names = ["confusion", "top-5", "f1-macro"]
        trainer = Trainer(model, optimizer, comm=SingleCommunicator(), metrics=names)
        return trainer.evaluate(make_split(40)), trainer.predict(make_split(40))

    mine, answers = outcome(make_model("deep mlp").to("cuda"))
    expected, others = outcome(make_model("deep mlp"))
    assert mine.loss == pytest.approx(expected.loss, rel=1e-6)
    assert (mine.confusion, mine.more) == (expected.confusion, pytest.approx(expected.more))
    assert_close([answers], [others], 1e-6)
