"""What every communicator promises, tried on each of them."""

from collections.abc import Callable
from functools import reduce as fold
from typing import Any

import numpy as np
import pytest
import torch

from phalanx.comm.base import Array, Call, Communicator, Op
from phalanx.errors import UsageError

pytestmark = pytest.mark.ranks(1, 2, 4)

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = ["bool", *INTEGERS, "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
Make = Callable[..., Any]
OPS: dict[Op, Callable[..., torch.Tensor]] = {
    "sum": torch.add,
    "product": torch.mul,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
}


def numbers(rank: int, count: int = 5) -> list[int]:
    """Small numbers, exact in every dtype, that differ between ranks."""
    return [(rank + 2 * index) % 3 for index in range(count)]


def values(buffer: Array) -> list[Any]:
    return list(buffer.tolist())


def as_tensor(values: list[int], dtype: str) -> torch.Tensor:
    # Half precision counts small numbers exactly, and torch cannot take all minima of uint64.
    exact = {"uint16": "int64", "uint32": "int64", "uint64": "int64"}.get(dtype, dtype)
    return torch.tensor(values, dtype=getattr(torch, exact))


def combined(op: Op, dtype: str, *, size: int, count: int = 5) -> list[Any]:
    parts = [as_tensor(numbers(rank, count), dtype) for rank in range(size)]
    return list(fold(OPS[op], parts).tolist())


def supported(op: Op, dtype: str) -> bool:
    return op in ("sum", "product") or not dtype.startswith("complex")


class TestInPlace:
    def test_broadcast(self, world: Communicator, make: Make, do: Callable[..., None]) -> None:
        for root in range(world.size):
            buffer = make(numbers(world.rank))
            do("broadcast", buffer, root)
            assert values(buffer) == numbers(root)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_broadcast_of_every_dtype(self, world: Communicator, dtype: str) -> None:
        buffer = torch.tensor(numbers(world.rank), dtype=getattr(torch, dtype))
        world.broadcast(buffer, world.size - 1)
        expected = torch.tensor(numbers(world.size - 1), dtype=getattr(torch, dtype))
        assert values(buffer) == values(expected)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_allreduce(self, world: Communicator, make: Make, dtype: str) -> None:
        for op in OPS:
            if not supported(op, dtype):
                continue
            buffer = make(numbers(world.rank), dtype)
            world.allreduce(buffer, op)
            assert values(buffer) == combined(op, dtype, size=world.size), op

    @pytest.mark.parametrize("dtype", ["bool", "bfloat16", "float32"])
    def test_allreduce_into_another_buffer(self, world: Communicator, dtype: str) -> None:
        mine = torch.tensor(numbers(world.rank), dtype=getattr(torch, dtype))
        total = torch.zeros_like(mine)
        world.allreduce(mine, "maximum", into=total)
        assert values(total) == combined("maximum", dtype, size=world.size)
        assert values(mine) == values(torch.tensor(numbers(world.rank), dtype=mine.dtype))
        with pytest.raises(UsageError, match=r"allreduce: sends .* but receives"):
            world.allreduce(mine, into=total[1:])

    def test_a_prepared_call_runs_often(self, world: Communicator) -> None:
        mine, total = torch.ones(5), torch.zeros(5)
        run = world.prepare(Call("allreduce", send=mine, receive=total, op="sum"))
        for number in range(1, 4):
            mine.fill_(number)
            run()
            assert total.tolist() == [number * world.size] * 5
        begin = world.prepare_start(Call("allgather", mine[:1], table := torch.zeros(world.size)))
        for _ in range(2):
            begin().wait()
            assert table.tolist() == [3.0] * world.size

    @pytest.mark.parametrize("dtype", ["bool", "int64", "bfloat16", "float32"])
    def test_iallreduce(self, world: Communicator, dtype: str) -> None:
        buffer = torch.tensor(numbers(world.rank), dtype=getattr(torch, dtype))
        pending = world.iallreduce(buffer, "maximum")
        while not pending.test():
            pass
        assert values(buffer) == combined("maximum", dtype, size=world.size)

    def test_wait_any(self, world: Communicator) -> None:
        buffers = [torch.ones(3), torch.ones(4)]
        pending = [world.iallreduce(buffer) for buffer in buffers]
        first = world.wait_any(pending)
        assert pending[first].test()
        assert world.wait_any([pending[1 - first]]) == 0
        assert [buffer.sum().item() for buffer in buffers] == [3 * world.size, 4 * world.size]

    @pytest.mark.parametrize("dtype", ["float16", "float64"])
    def test_reduce(
        self, world: Communicator, make: Make, do: Callable[..., None], dtype: str
    ) -> None:
        for root in range(world.size):
            for op in OPS:
                buffer = make(numbers(world.rank), dtype)
                do("reduce", buffer, root, op=op)
                if world.rank == root:
                    assert values(buffer) == combined(op, dtype, size=world.size)
                else:
                    assert values(buffer) == numbers(world.rank)

    @pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
    def test_large_halves_and_floats(self, world: Communicator, dtype: str) -> None:
        buffer = torch.full((300_001,), float(world.rank + 1), dtype=getattr(torch, dtype))
        world.allreduce(buffer)
        assert (buffer == world.size * (world.size + 1) / 2).all()

    def test_no_dimension_and_no_elements(self, world: Communicator, make: Make) -> None:
        scalar, empty = make(2), make([])
        for buffer in (scalar, empty):
            world.broadcast(buffer)
            world.allreduce(buffer)
            world.reduce(buffer)
        assert scalar.tolist() == 2 * world.size * (world.size if world.rank == 0 else 1)

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_empty_halves(self, world: Communicator, do: Callable[..., None], dtype: str) -> None:
        """Which have an operator of their own: empty they stay, and the next ones are as ever."""
        for op in OPS:
            empty = torch.zeros(0, 3, dtype=getattr(torch, dtype))
            do("allreduce", empty, op=op)
            assert (empty.shape, empty.dtype) == ((0, 3), getattr(torch, dtype))
            full = torch.tensor(numbers(world.rank), dtype=getattr(torch, dtype))
            do("allreduce", full, op=op)
            assert values(full) == combined(op, dtype, size=world.size)

    def test_views_are_written_where_they_are(self, world: Communicator) -> None:
        flat = torch.zeros(6, requires_grad=True)
        part = flat.detach()[2:4].fill_(1)
        address = part.data_ptr()
        world.allreduce(part)
        assert part.data_ptr() == address
        assert values(flat) == [0, 0, world.size, world.size, 0, 0]

    def test_parameters(self, world: Communicator) -> None:
        weight = torch.nn.Parameter(torch.ones(2, 2))
        world.allreduce(weight)
        assert values(weight.flatten()) == [world.size] * 4
        assert weight.requires_grad


class TestExchange:
    def test_scatter(self, world: Communicator, make: Make, do: Callable[..., None]) -> None:
        for root in range(world.size):
            whole = make([[row, -row] for row in range(2 * world.size)])
            part = make([[9, 9], [9, 9]])
            do("scatter", whole if world.rank == root else None, part, root)
            assert values(part) == values(whole)[2 * world.rank :][:2]

    def test_gather(self, world: Communicator, make: Make, do: Callable[..., None]) -> None:
        for root in range(world.size):
            whole = make([[9, 9]] * world.size)
            do("gather", make([world.rank, root]), whole if world.rank == root else None, root)
            if world.rank == root:
                assert values(whole) == [[rank, root] for rank in range(world.size)]

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_allgather(self, world: Communicator, dtype: str) -> None:
        kind = getattr(torch, dtype)
        whole = torch.zeros(world.size, 2, dtype=kind)
        world.allgather(torch.tensor([world.rank, 1], dtype=kind), whole)
        expected = torch.tensor([[rank, 1] for rank in range(world.size)], dtype=kind)
        assert values(whole) == values(expected)

    def test_scalars_are_gathered(self, world: Communicator, do: Callable[..., None]) -> None:
        whole = torch.zeros(world.size)
        do("allgather", torch.tensor(float(world.rank)), whole)
        assert values(whole) == list(range(world.size))

    @pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
    def test_reduce_scatter(
        self, world: Communicator, make: Make, do: Callable[..., None], dtype: str
    ) -> None:
        count = 3 * world.size
        send, part = make(numbers(world.rank, count), dtype), make([9, 9, 9], dtype)
        do("reduce_scatter", send, part, op="sum")
        expected = combined("sum", dtype, size=world.size, count=count)
        assert values(part) == expected[3 * world.rank :][:3]
        assert values(send) == numbers(world.rank, count)

    def test_all_to_all(self, world: Communicator, make: Make, do: Callable[..., None]) -> None:
        send = make([[world.rank, to] for to in range(world.size)])
        whole = make([[9, 9]] * world.size)
        do("all_to_all", send, whole)
        assert values(whole) == [[source, world.rank] for source in range(world.size)]

    def test_one_own_part_may_be_in_place(self, world: Communicator) -> None:
        whole = torch.full((world.size, 3), -1.0)
        whole[world.rank] = world.rank
        world.allgather(whole[world.rank], whole)
        assert values(whole[:, 0]) == list(range(world.size))
        world.gather(whole[world.rank], whole)
        world.scatter(whole, whole[world.rank])
        assert values(whole[:, 0]) == list(range(world.size))


@pytest.mark.ranks(1, 2, 3)
class TestCounts:
    """Rank r has r rows: rank 0 none."""

    def test_scatter_and_gather(
        self, world: Communicator, make: Make, do: Callable[..., None]
    ) -> None:
        counts = list(range(world.size))
        rows = sum(counts)
        whole = make([[row, row] for row in range(rows)] or np.zeros((0, 2)))
        part = make(np.zeros((world.rank, 2)))
        root = world.size - 1
        do("scatter", whole if world.rank == root else None, part, root, counts)
        first = sum(counts[: world.rank])
        assert values(part) == [[row, row] for row in range(first, first + world.rank)]
        back = make(np.zeros((rows, 2)))
        do("gather", part, back, root, counts)
        do("allgather", part, back, counts=counts)
        assert values(back) == values(whole)

    def test_reduce_scatter(self, world: Communicator, make: Make, do: Callable[..., None]) -> None:
        counts = list(range(world.size))
        part = make(np.zeros((world.rank, 2)))
        do("reduce_scatter", make(np.ones((sum(counts), 2))), part, counts=counts)
        assert values(part) == [[world.size, world.size]] * world.rank

    def test_all_to_all(self, world: Communicator, make: Make, do: Callable[..., None]) -> None:
        """Rank r sends each rank i so many rows: i."""
        send_counts = list(range(world.size))
        send = make(np.full((sum(send_counts), 2), world.rank))
        receive = make(np.full((world.rank * world.size, 2), -1))
        receive_counts = [world.rank] * world.size
        do("all_to_all", send, receive, send_counts=send_counts, receive_counts=receive_counts)
        senders = [rank for rank in range(world.size) for _ in range(world.rank)]
        assert values(receive) == [[rank, rank] for rank in senders]
