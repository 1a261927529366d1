"""What Horovod 0.28.1 does in corners that scripts and clients rely on."""

import threading
from typing import Any

import pytest
import torch
from torch import nn

import phalanx.horovod.torch as hvd
from phalanx.errors import UsageError

pytestmark = [pytest.mark.usefixtures("horovod"), pytest.mark.ranks(2)]


def linear(value: float = 1.0) -> nn.Linear:
    model = nn.Linear(2, 1)
    nn.init.constant_(model.weight, value)
    nn.init.constant_(model.bias, value)
    return model


def distributed(model: nn.Module, **options: Any) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return hvd.DistributedOptimizer(optimizer, model.named_parameters(), **options)


def backward(model: nn.Module) -> None:
    model(torch.full((1, 2), hvd.rank() + 1.0)).sum().backward()


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_new_optimizer_gets_zeros_and_a_state(wrapped: bool) -> None:
    """Weights decay once, on every rank: Horovod steps."""
    model = linear()
    optimizer: Any = torch.optim.Adam(model.parameters(), lr=0.1, weight_decay=0.5)
    if wrapped:
        optimizer = hvd.DistributedOptimizer(optimizer)
    expected = linear()
    plain = torch.optim.Adam(expected.parameters(), lr=0.1, weight_decay=0.5)
    for parameter in expected.parameters():
        parameter.grad = torch.zeros_like(parameter)
    plain.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert [p.grad.tolist() for p in model.parameters() if p.grad is not None] == [[[0, 0]], [0]]
    assert [one["step"].item() for one in optimizer.state_dict()["state"].values()] == [1, 1]
    assert torch.equal(model.weight, expected.weight)
    optimizer.step()  # nothing has come to it since, and nothing is missing


def test_a_state_of_the_root_alone_moves_no_weights() -> None:
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.5)
    if hvd.rank() == 1:
        backward(model)
        optimizer.step()
    weights = model.weight.tolist()
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    assert model.weight.tolist() == weights
    momenta = [one["momentum_buffer"].tolist() for one in optimizer.state_dict()["state"].values()]
    assert momenta == [[[2.5, 2.5]], [1.5]]
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_sparse_weights_of_a_model_get_sparse_zeros() -> None:
    model = nn.Sequential(nn.Embedding(4, 2, sparse=True), nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hvd.broadcast_optimizer_state(optimizer, 0, model)
    gradients = [parameter.grad for parameter in model.parameters()]
    assert [one.is_sparse for one in gradients if one is not None] == [True, False, False]


def test_averages_of_integers_are_cut_towards_zero() -> None:
    for total, average in ((-75, -37), (75, 37), (-1, 0)):
        own = torch.tensor([total if hvd.rank() == 0 else 0])
        assert hvd.allreduce(own).item() == average
        assert hvd.allreduce_(own.clone().int()).item() == average
        assert hvd.reducescatter(own.repeat(2)).item() == average
        assert [one.item() for one in hvd.grouped_allreduce([own, own])] == [average] * 2
    own = torch.tensor([-75 if hvd.rank() == 0 else 0])
    assert hvd.allreduce(own, postscale_factor=3.0).item() == -112  # cut once, not twice
    large = torch.tensor([2**60 + 1])
    assert hvd.allreduce(large).item() == 2**60 + 1
    for dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64):
        assert hvd.allreduce(torch.tensor([3 + hvd.rank()], dtype=dtype)).item() == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(2,), ()])
def test_reducescatter_has_no_adasum(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = torch.ones(shape, dtype=dtype)
    with pytest.raises(hvd.HorovodInternalError, match="reducescatter has no Adasum"):
        hvd.reducescatter(tensor, op=hvd.Adasum)
    with pytest.raises(hvd.HorovodInternalError, match="reducescatter has no Adasum"):
        hvd.grouped_reducescatter_async([tensor], op=2)
    hvd.barrier()  # each is refused by itself: who is through first must not shut down yet


def test_ops_are_numbers() -> None:
    ops = (hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product)
    assert [int(op) for op in ops] == [0, 1, 2, 3, 4, 5]
    assert all(isinstance(op, int) for op in ops)
    own = torch.tensor([hvd.rank() + 1.0, 3.0])
    assert hvd.allreduce(own, op=0).tolist() == [1.5, 3]
    assert hvd.allreduce(own, op=1).tolist() == [3, 6]
    assert hvd.allreduce(own, op=3).tolist() == [1, 3]
    assert hvd.reducescatter(own, op=1).item() == (3 if hvd.rank() == 0 else 6)
    assert hvd.sparse_allreduce_async(own.to_sparse(), op=1)().to_dense().tolist() == [3, 6]
    with pytest.raises(UsageError, match=r"op must be one of hvd.Average, .*, not 6"):
        hvd.allreduce(own, op=6)
    model = linear()
    optimizer = distributed(model, op=1)
    backward(model)
    optimizer.synchronize()
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[3, 3]]
    assert optimizer.op is hvd.Sum


def test_objects_that_only_cloudpickle_takes() -> None:
    number = hvd.rank() + 7
    assert hvd.broadcast_object(lambda x: x + number, root_rank=1)(1) == 9
    assert [one() for one in hvd.allgather_object(lambda: number)] == [7, 8]


def test_an_object_that_cannot_be_serialised_keeps_nobody_waiting() -> None:
    lock = threading.Lock()
    with pytest.raises(TypeError if hvd.rank() == 0 else hvd.HorovodInternalError, match="lock"):
        hvd.broadcast_object(lock if hvd.rank() == 0 else None)
    with pytest.raises(TypeError if hvd.rank() == 1 else hvd.HorovodInternalError, match="lock"):
        hvd.allgather_object(lock if hvd.rank() == 1 else None)
    assert hvd.broadcast_object("still here") == "still here"


def test_what_clients_read_from_an_optimizer() -> None:
    model = linear()
    model.bias.requires_grad_(False)
    optimizer = distributed(model, gradient_predivide_factor=2.0, sparse_as_dense=True)
    assert optimizer._parameter_names == {model.weight: "weight", model.bias: "bias"}
    assert optimizer._requires_update == {model.weight}
    assert optimizer.process_set is hvd.global_process_set
    assert (optimizer.gradient_predivide_factor, optimizer.sparse_as_dense) == (2.0, True)
    assert optimizer._compression is hvd.Compression.none
    assert (optimizer._handles, optimizer._synchronized) == ({}, False)
    backward(model)
    assert list(optimizer._handles) == [model.weight]
    optimizer.synchronize()
    assert (optimizer._handles, optimizer._synchronized) == ({}, True)
    with optimizer.skip_synchronize():
        assert not optimizer._should_synchronize
        optimizer.step()
    assert "horovod" in str(type(optimizer))  # how Lightning tells one
    assert type(optimizer).__module__ == hvd.DistributedOptimizer.__module__  # how Horovod does
    assert isinstance(optimizer, torch.optim.SGD)


def test_the_order_of_calls_in_horovods_words() -> None:
    model = linear()
    optimizer = distributed(model)
    backward(model)
    with pytest.raises(AssertionError, match=r"optimizer.zero_grad\(\) was called after loss"):
        optimizer.zero_grad()
    optimizer.synchronize()
    with pytest.warns(UserWarning, match="without optimizer.skip_synchronize.. context after"):
        optimizer.step()
    backward(model)
    with pytest.raises(AssertionError, match="more than backward_passes_per_step times before"):
        backward(model)
    optimizer.synchronize()


def test_a_process_set_that_exists() -> None:
    first = hvd.add_process_set([0])
    for again in (first, [0], [0, 1], hvd.ProcessSet([0])):
        with pytest.raises(ValueError, match="Attempted to add a duplicate process set"):
            hvd.add_process_set(again)
    hvd.remove_process_set(first)
    assert hvd.add_process_set([0]).size() == 1
