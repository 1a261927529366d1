"""Whose GPU is whose, and how their tensors travel: with stand-ins, as it takes no GPU to see."""

import logging
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from phalanx import Split, Trainer
from phalanx.cli.start import rank_count
from phalanx.comm.base import Communicator
from phalanx.comm.device import distributed, group, on_device, streams, visible
from phalanx.comm.device.gpus import own_number
from phalanx.comm.device.staged import StagedCommunicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.own.nest import to_device
from phalanx.errors import UsageError
from phalanx.strategies.building_blocks.preserve import preserved
from phalanx.train import binding, compute

CUDA = torch.device("cuda", 0)


class Nccl(StagedCommunicator):  # type: ignore[misc]
    """In place of a communicator that needs GPUs."""

    def __init__(self, inner: Communicator, device: torch.device) -> None:
        super().__init__(inner)


def have_gpus(monkeypatch: pytest.MonkeyPatch, seen: list[str]) -> list[torch.device]:
    """This rank sees GPUs of these UUIDs; where it says it computes from now on."""
    chosen: list[torch.device] = []
    cuda = torch.cuda
    monkeypatch.setattr(cuda, "is_available", lambda: bool(seen))
    monkeypatch.setattr(cuda, "device_count", lambda: len(seen))
    monkeypatch.setattr(
        cuda, "get_device_properties", lambda one: SimpleNamespace(uuid=seen[one.index or 0])
    )
    monkeypatch.setattr(cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    monkeypatch.setattr(distributed, "DistributedCommunicator", Nccl)
    return chosen


@pytest.mark.ranks(4)
@pytest.mark.parametrize(
    ("visible", "kind", "said"),
    [
        (lambda rank: [f"gpu-{rank}"], Nccl, "by NCCL"),
        (lambda rank: [f"gpu-{one}" for one in range(4)], Nccl, "by NCCL"),
        (lambda rank: ["gpu-0", "gpu-1"], StagedCommunicator, "ranks 0 and 2 have the same GPU"),
        (lambda rank: ["gpu-0"], StagedCommunicator, "ranks 0 and 1 have the same GPU"),
    ],
    ids=["one visible a rank", "all visible", "more ranks than GPUs", "one GPU"],
)
def test_nccl_is_for_ranks_with_a_gpu_each(
    comm: Communicator,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    visible: Any,
    kind: type[Communicator],
    said: str,
) -> None:
    chosen = have_gpus(monkeypatch, visible(comm.rank))
    caplog.set_level(logging.INFO, logger="phalanx")
    device = compute.choose_device(comm, "cuda")
    assert chosen == [device]
    assert type(on_device.on_device(comm, device)) is kind
    if comm.rank == 0:
        assert said in caplog.text
    own = kind is Nccl
    assert compute.choose_device(comm, "auto").type == ("cuda" if own else "cpu")
    assert compute.choose_device(comm, "auto", gpus_will_do=False).type == "cpu"
    if comm.rank == 0:
        assert "is not for GPUs, so this computes on CPUs" in caplog.text or not own


@pytest.mark.ranks(2)
def test_a_rank_without_nccl(comm: Communicator, monkeypatch: pytest.MonkeyPatch) -> None:
    have_gpus(monkeypatch, [f"gpu-{comm.rank}"])
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: comm.rank == 0)
    assert on_device._obstacle(comm, CUDA) == "torch on rank 1 has no NCCL"


def test_the_only_gpu_that_a_rank_sees_is_its_own() -> None:
    assert own_number(3, 1, share=False) == 0
    assert own_number(3, 4, share=False) == 3
    assert own_number(3, 2) == 1
    with pytest.raises(UsageError, match="local rank 3 has no GPU of its own: this host has 2"):
        own_number(3, 2, share=False)


def test_a_rocm_build_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "hip", "6.2")
    with pytest.raises(UsageError, match="there is none, or no driver for it"):
        compute.choose_device(SingleCommunicator(), "cuda")


def test_a_group_ends_after_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: order.append(f"wait {device}"))
    inner = SimpleNamespace(shutdown=lambda: order.append("end"))
    monkeypatch.setattr(group, "_open", lambda *_: inner)
    opened = group.Group(None, SingleCommunicator(), CUDA)
    opened.close()
    opened.close()
    assert order == ["wait cuda:0", "end"]


class Stream:
    """What a thread has a GPU do, in its order."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def wait_event(self, event: "Event") -> None:
        self.done.append(f"wait for {event.stream.done[-1]}")

    def synchronize(self) -> None:
        self.done.append("host waits")


class Event:
    stream: Stream

    def record(self, stream: Stream) -> None:
        self.stream = stream


def test_operations_follow_what_their_caller_has_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    callers, workers = Stream(), Stream()
    callers.done.append("make a tensor")
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: callers)
    there: Any = SimpleNamespace(device=CUDA, is_cuda=True)
    marks = streams.mark([there, there, torch.ones(1)])
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: workers)
    streams.wait_for(marks)
    streams.settle(marks)
    assert workers.done == ["wait for make a tensor", "host waits"]
    assert streams.mark([torch.ones(1)]) == []


def test_the_same_bits_on_gpus_need_deterministic_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(torch, "use_deterministic_algorithms", asked.append)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")  # put back as it was, whatever happens to it
    compute.compute_deterministically(torch.device("cpu"))
    assert asked == []
    compute.compute_deterministically(CUDA)
    assert asked == [True]
    assert not torch.backends.cudnn.benchmark
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    compute.compute_deterministically(CUDA)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_what_is_tried_out_leaves_random_numbers_alone() -> None:
    layer = torch.nn.Dropout()
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with preserved([layer]):
        layer(torch.ones(5))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.ranks(2)
def test_communicators_over_torch_cost_nothing_until_used(comm: Communicator) -> None:
    world = distributed.DistributedCommunicator(comm, torch.device("cpu"))
    total = torch.ones(3)
    world.allreduce(total)

    def held() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), len(
            list(Path("/proc/self/task").iterdir())
        )

    before = held()
    halves = [world.split(world.rank, 0) for _ in range(5)] + [world.host() for _ in range(5)]
    assert held() == before
    for half in halves:
        mine = torch.ones(2)
        half.allreduce(mine)
        assert mine.tolist() == [half.size] * 2
        half.free()
    for _ in range(20):
        with make_trainer(world) as trainer:
            trainer.fit(Split(torch.ones(8, 3), torch.zeros(8).long()), epochs=1, batch_size=4)
    comm.barrier()
    assert held() == before
    world._group.barrier()  # still there


def make_trainer(comm: Communicator) -> Trainer:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Trainer(model, optimizer, comm=comm, strategy="allreduce", shards=2)


def test_gpus_are_counted_without_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in visible._VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(visible, "_NVIDIA", tmp_path / "nvidia")
    monkeypatch.setattr(visible, "_AMD", tmp_path / "amd")
    assert visible.visible_gpus() == 0
    for number, identity in enumerate((0, 0, 31415, 92653)):
        (tmp_path / "amd" / str(number)).mkdir(parents=True)
        (tmp_path / "amd" / str(number) / "gpu_id").write_text(f"{identity}\n")
    assert visible.visible_gpus() == 2
    for number in range(4):
        (tmp_path / "nvidia" / str(number)).mkdir(parents=True)
    assert visible.visible_gpus() == 4
    assert rank_count(None, "cuda") == 4
    assert (rank_count(None), rank_count(3, "cuda"), rank_count(None, "cpu")) == (1, 3, 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-8f3,-1,0")
    assert visible.visible_gpus() == 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible.visible_gpus() == 0
    assert rank_count(None, "cuda") == 1


def test_samples_go_to_a_gpu_from_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Host:
        is_cpu = True

        def pin_memory(self) -> "Host":
            asked.append("pin")
            return self

        def to(self, device: torch.device, *, non_blocking: bool) -> "Host":
            asked.append((device, non_blocking))
            return self

    there: Any = Host()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    to_device(there, CUDA)
    to_device(there, torch.device("cpu"))
    assert asked == ["pin", (CUDA, True), (torch.device("cpu"), True)]


@pytest.mark.ranks(2)
def test_the_memory_of_each_gpu(comm: Communicator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 100 + comm.rank)
    found = compute.device_memory(comm, CUDA)
    assert found == {"device_memory_bytes_by_rank": [100, 101]}
    assert compute.device_memory(comm, torch.device("cpu")) == {}


@pytest.mark.parametrize("kind", ["mps", "xpu"])
def test_other_gpus_are_for_one_rank(kind: str) -> None:
    binding._check_device(torch.device(kind), 1)
    with pytest.raises(UsageError, match=f"the model is on '{kind}', where one rank trains alone"):
        binding._check_device(torch.device(kind), 2)
