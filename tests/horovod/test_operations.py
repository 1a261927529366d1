"""Every operation, on every dtype, from 0-d and empty tensors to several dimensions."""

import pytest
import torch
from torch import Tensor

import phalanx.horovod.torch as hvd
from phalanx.errors import UsageError

pytestmark = pytest.mark.usefixtures("horovod")

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
SHAPES = ((), (0,), (3,), (2, 0), (2, 3))


def of(rank: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A tensor of small numbers, another one on each rank."""
    count = torch.Size(shape).numel()
    return (torch.arange(count) % 3 + rank + 1).reshape(shape).to(dtype)


def everyone(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.stack([of(rank, shape, dtype) for rank in range(hvd.size())])


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_reductions(dtype: torch.dtype) -> None:
    for shape in SHAPES:
        mine, whole = of(hvd.rank(), shape, dtype), everyone(shape, dtype)
        total = whole.sum(0).to(dtype)
        average = total / hvd.size() if dtype.is_floating_point else total // hvd.size()
        expected = {
            hvd.Sum: total,
            hvd.Average: average.to(dtype),
            hvd.Min: whole.amin(0),
            hvd.Max: whole.amax(0),
            hvd.Product: whole.double().prod(0).to(dtype),
        }
        for op, value in expected.items():
            result = hvd.allreduce(mine, op=op)
            assert result.dtype == dtype
            torch.testing.assert_close(result, value)
            assert mine.equal(of(hvd.rank(), shape, dtype))


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool])
def test_moves(dtype: torch.dtype) -> None:
    for shape in SHAPES:
        rank, size = hvd.rank(), hvd.size()
        mine, whole = of(rank, shape, dtype), everyone(shape, dtype)
        assert hvd.broadcast(mine, size - 1).equal(whole[-1])
        assert mine.equal(whole[rank])
        rows = mine[:, None][:rank] if len(shape) == 1 else mine
        gathered = [part[:, None][:i] if len(shape) == 1 else part for i, part in enumerate(whole)]
        expected = whole if not shape else torch.cat(gathered)
        assert hvd.allgather(rows).equal(expected)


@pytest.mark.ranks(1, 2, 3)
def test_booleans_are_combined_as_any_and_all() -> None:
    mine = torch.tensor([hvd.rank() == 0, True, False])
    assert hvd.allreduce(mine, op=hvd.Sum).tolist() == [True, True, False]
    assert hvd.allreduce(mine, op=hvd.Min).tolist() == [hvd.size() == 1, True, False]
    with pytest.raises(UsageError, match="average of booleans"):
        hvd.allreduce(mine)


@pytest.mark.ranks(1, 2, 3)
def test_forms_of_allreduce() -> None:
    size = hvd.size()
    base = torch.arange(6.0).reshape(2, 3)
    target = base.clone()
    assert hvd.allreduce_(target, op=hvd.Sum) is target
    torch.testing.assert_close(target, base * size)
    strided = base.t().clone().t()
    hvd.synchronize(hvd.allreduce_async_(strided, average=False))
    torch.testing.assert_close(strided, base * size)
    assert hvd.synchronize(hvd.allreduce_async(base)).equal(base)
    scaled = hvd.allreduce(base, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    torch.testing.assert_close(scaled, base * 2 * size)
    small = hvd.allreduce(base, compression=hvd.Compression.fp16, op=hvd.Sum)
    assert small.dtype == torch.float32
    torch.testing.assert_close(small, base * size)
    halves = hvd.allreduce(torch.tensor([3, 5]), op=hvd.Sum, prescale_factor=0.5)
    assert halves.tolist() == [1 * size, 2 * size]


@pytest.mark.ranks(1, 2, 3)
def test_groups() -> None:
    size, rank = hvd.size(), hvd.rank()
    group = [torch.ones(2), torch.full((3,), 2), torch.ones(()) * 3, torch.ones(0)]
    results = hvd.grouped_allreduce(group, op=hvd.Sum)
    assert [one.tolist() for one in results] == [[size] * 2, [2 * size] * 3, 3 * size, []]
    hvd.grouped_allreduce_(group[:2], op=hvd.Sum)
    assert group[0].tolist() == [size] * 2
    again = hvd.synchronize(hvd.grouped_allreduce_async_([group[0]]))
    assert again[0] is group[0]
    gathered = hvd.grouped_allgather([torch.full((rank,), rank), torch.ones(1)])
    assert gathered[0].tolist() == [one for one in range(size) for _ in range(one)]
    scattered = hvd.grouped_reducescatter([torch.ones(size), torch.ones(2 * size, 2)], op=hvd.Sum)
    assert [one.tolist() for one in scattered] == [[size], [[size, size]] * 2]
    handle = hvd.grouped_reducescatter_async([torch.ones(size)], op=hvd.Average)
    assert hvd.synchronize(handle)[0].tolist() == [1]
    assert len(hvd.synchronize(hvd.grouped_allgather_async([torch.ones(1)]))[0]) == size
    with pytest.raises(UsageError, match="list of tensors"):
        hvd.grouped_allreduce(torch.ones(2))  # type: ignore[arg-type]


@pytest.mark.ranks(1, 2, 3)
def test_broadcast_in_place() -> None:
    root = hvd.size() - 1
    for tensor in (torch.full((2, 3), float(hvd.rank())), torch.full((3, 2), hvd.rank()).t()):
        assert hvd.broadcast_(tensor, root) is tensor
        assert tensor.eq(root).all()
        handle = hvd.broadcast_async_(tensor.fill_(hvd.rank()), root)
        assert hvd.synchronize(handle) is tensor
        assert tensor.eq(root).all()
    assert hvd.synchronize(hvd.broadcast_async(torch.tensor(hvd.rank()), 0)) == 0
    with pytest.raises(UsageError, match="root_rank 7"):
        hvd.broadcast(torch.ones(1), 7)


@pytest.mark.ranks(1, 2, 3)
def test_alltoall() -> None:
    size, rank = hvd.size(), hvd.rank()
    equal = hvd.alltoall(torch.arange(2 * size)[:, None] + 100 * rank)
    assert equal[:, 0].tolist() == [100 * r + 2 * rank + i for r in range(size) for i in range(2)]
    splits = [rank + one for one in range(size)]
    rows = torch.cat([torch.full((count, 2), float(to)) for to, count in enumerate(splits)])
    for given in (splits, torch.tensor(splits)):
        output, received = hvd.alltoall(rows, splits=given)
        assert received.tolist() == [r + rank for r in range(size)]
        assert output.tolist() == [[rank, rank]] * sum(r + rank for r in range(size))
    output, received = hvd.synchronize(hvd.alltoall_async(torch.empty(0), splits=[0] * size))
    assert (output.tolist(), received.tolist()) == ([], [0] * size)
    with pytest.raises(UsageError, match="must be"):
        hvd.alltoall(torch.ones(3), splits=[1] * (size + 1))


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_reducescatter(dtype: torch.dtype) -> None:
    size, rank = hvd.size(), hvd.rank()
    whole = torch.arange(4 * 2).reshape(4, 2).to(dtype)
    starts = [0, *torch.tensor([4 // size + (r < 4 % size) for r in range(size)]).cumsum(0)]
    mine = whole[starts[rank] : starts[rank + 1]]
    assert hvd.reducescatter(whole).equal(mine)
    assert hvd.synchronize(hvd.reducescatter_async(whole, op=hvd.Sum)).equal(mine * size)
    assert hvd.reducescatter(whole, op=hvd.Max).equal(mine)
    with pytest.raises(UsageError, match="0-d"):
        hvd.reducescatter(torch.ones(()))


@pytest.mark.ranks(1, 2, 3, 4)
def test_adasum_is_the_sum_of_orthogonal_and_the_average_of_equal_vectors() -> None:
    size = hvd.size()
    unit = torch.zeros(size)
    unit[hvd.rank()] = 2.0
    torch.testing.assert_close(hvd.allreduce(unit, op=hvd.Adasum), torch.full((size,), 2.0))
    same = torch.tensor([1.0, -2.0, 3.0])
    torch.testing.assert_close(hvd.allreduce(same, op=hvd.Adasum), same)


@pytest.mark.ranks(1, 2, 3)
def test_sparse() -> None:
    where = torch.tensor([[0, hvd.rank() + 1]])
    sparse = torch.sparse_coo_tensor(where, torch.ones(2, 2), (5, 2), check_invariants=True)
    result = hvd.synchronize(hvd.sparse_allreduce_async(sparse, name="s", op=hvd.Average))
    expected = torch.zeros(5, 2)
    expected[0] = 1.0
    expected[1 : hvd.size() + 1] = 1.0 / hvd.size()
    torch.testing.assert_close(result.to_dense(), expected)


@pytest.mark.ranks(1, 2)
def test_handles() -> None:
    handle = hvd.allreduce_async(torch.ones(2), name="h")
    hvd.synchronize(handle)
    assert hvd.synchronize(handle) is None
    with pytest.raises(UsageError, match="handle"):
        hvd.poll(handle)
    hvd.barrier()


@pytest.mark.ranks(2)
def test_operations_are_asynchronous() -> None:
    """An operation that one rank has not asked for is not done, and holds nobody up."""
    if hvd.rank() == 0:
        handle = hvd.allreduce_async(torch.ones(1), name="late", op=hvd.Sum)
        assert not hvd.poll(handle)
    hvd.barrier()
    if hvd.rank() == 1:
        handle = hvd.allreduce_async(torch.ones(1), name="late", op=hvd.Sum)
    while not hvd.poll(handle):
        pass
    assert hvd.synchronize(handle).item() == 2


@pytest.mark.ranks(2)
def test_long_messages() -> None:
    """Names that do not fit one slot of a round."""
    name = "x" * 3000
    if hvd.rank() == 0:
        name_of_first = hvd.allreduce_async(torch.ones(1), name=name, op=hvd.Sum)
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2
    if hvd.rank() == 1:
        name_of_first = hvd.allreduce_async(torch.ones(1), name=name, op=hvd.Sum)
    assert hvd.synchronize(name_of_first).item() == 2
