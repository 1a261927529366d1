"""Operations find each other by name, whatever order and threads ranks ask for them in."""

import random
import threading
from typing import Any

import pytest
import torch

import phalanx.horovod.torch as hvd

pytestmark = pytest.mark.usefixtures("horovod")

ROUNDS = 330


def begin(kind: str, name: str) -> int:
    mine = torch.full((2,), float(hvd.rank()))
    if kind == "allreduce":
        return hvd.allreduce_async(mine, name=name, op=hvd.Sum)
    if kind == "average":
        return hvd.allreduce_async_(mine, name=name)
    if kind == "allgather":
        return hvd.allgather_async(mine[: hvd.rank() % 2 + 1], name=name)
    if kind == "broadcast":
        return hvd.broadcast_async(mine, hvd.size() - 1, name=name)
    if kind == "alltoall":
        return hvd.alltoall_async(mine.repeat(hvd.size()), name=name)
    return hvd.reducescatter_async(mine.repeat(hvd.size()), name=name, op=hvd.Sum)


def expected(kind: str) -> list[float]:
    ranks = list(range(hvd.size()))
    results: dict[str, list[float]] = {
        "allreduce": [sum(ranks)] * 2,
        "average": [sum(ranks) / len(ranks)] * 2,
        "allgather": [r for r in ranks for _ in range(r % 2 + 1)],
        "broadcast": [ranks[-1]] * 2,
        "alltoall": [r for r in ranks for _ in range(2)],
        "reducescatter": [sum(ranks)] * 2,
    }
    return results[kind]


KINDS = ("allreduce", "allreduce", "average", "allgather", "broadcast", "alltoall", "reducescatter")


def play(seed: int, threads: int) -> None:
    """One round: the same operations on all ranks, each in an order of its own."""
    common, own = random.Random(seed), random.Random(seed * 7 + hvd.rank())
    operations = [(f"{seed}.{i}", common.choice(KINDS)) for i in range(common.randint(1, 6))]
    own.shuffle(operations)
    results: dict[str, Any] = {}

    def work(share: list[tuple[str, str]]) -> None:
        handles = [(name, begin(kind, name)) for name, kind in share]
        own_order = handles if seed % 2 else list(reversed(handles))
        for name, handle in own_order:
            results[name] = hvd.synchronize(handle)

    # Threads take operations at random, and so ask for them in no order at all.
    shares = [operations[number::threads] for number in range(threads)]
    workers = [threading.Thread(target=work, args=(share,)) for share in shares[1:]]
    for worker in workers:
        worker.start()
    work(shares[0])
    for worker in workers:
        worker.join()
    for name, kind in operations:
        result = results[name][0] if kind == "alltoall" else results[name]
        assert result.tolist() == expected(kind), (seed, name, kind)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_random_rounds(threads: int) -> None:
    """Not by Hypothesis: it draws from what a process has imported, in which ranks may differ."""
    for seed in range(ROUNDS):
        play(ROUNDS * threads + seed, threads)


@pytest.mark.ranks(3)
def test_blocking_calls_in_threads_in_opposite_orders() -> None:
    """Where each rank's main thread waits for what another rank's second thread brings."""
    names = ["a", "b", "c"]
    turned = names[hvd.rank() :] + names[: hvd.rank()]
    results: dict[str, float] = {}

    def work(name: str) -> None:
        results[name] = hvd.allreduce(torch.ones(1), name=name, op=hvd.Sum).item()

    workers = [threading.Thread(target=work, args=(name,)) for name in turned[1:]]
    for worker in workers:
        worker.start()
    work(turned[0])
    for worker in workers:
        worker.join()
    assert results == dict.fromkeys(names, 3.0)


@pytest.mark.ranks(2)
def test_many_tensors_travel_together() -> None:
    order = list(range(200))
    random.Random(hvd.rank()).shuffle(order)
    handles = {i: hvd.allreduce_async(torch.full((3,), float(i)), name=f"{i}") for i in order}
    for i in range(200):
        assert hvd.synchronize(handles[i]).tolist() == [i] * 3
