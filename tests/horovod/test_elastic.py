"""States that go back to their last commit."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import phalanx.horovod.torch as hvd

pytestmark = [pytest.mark.usefixtures("horovod"), pytest.mark.ranks(1, 2)]


def make() -> Any:
    torch.manual_seed(hvd.rank())
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return hvd.elastic.TorchState(model, optimizer, epoch=hvd.rank(), batch=0)


def train(state: Any) -> None:
    state.model(torch.ones(1, 2)).sum().backward()
    state.optimizer.step()
    state.batch += 1


def test_commit_and_restore() -> None:
    state = make()
    train(state)
    state.commit()
    weights = state.model.weight.detach().clone()
    train(state)
    state.epoch = 9
    assert not state.model.weight.equal(weights)
    state.restore()
    assert state.model.weight.equal(weights)
    assert (state.epoch, state.batch) == (hvd.rank(), 1)
    assert len(state.optimizer.state) == 2


def test_sync_takes_over_rank_0() -> None:
    state = make()
    train(state)
    state.sync()
    assert state.epoch == 0
    weights = hvd.allgather(state.model.weight.detach())
    assert weights.eq(weights[0]).all()
    state.epoch = 5
    state.restore()
    assert state.epoch == 0


def test_objects() -> None:
    state: Any = hvd.elastic.ObjectState(numbers=[hvd.rank()])
    state.numbers.append(1)
    state.restore()
    assert state.numbers == [hvd.rank()]
    state.sync()
    assert state.numbers == [0]


def test_training_starts_again_from_the_last_commit() -> None:
    state = make()
    resets: list[int] = []
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])
    calls: list[int] = []

    @hvd.elastic.run
    def function(state: Any) -> str:
        calls.append(state.batch)
        while state.batch < 4:
            train(state)
            state.commit()
            if state.batch == 2 and len(calls) == 1:
                train(state)
                raise hvd.HorovodInternalError("made up")
        return "done"

    size = hvd.size()
    assert function(state) == "done"
    assert (calls, resets, state.batch) == ([0, 2], [size], 4)


def test_an_optimizer_whose_exchange_fails() -> None:
    """One rank fails while the others wait for its gradients; all train on."""
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    plain = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    state = hvd.elastic.TorchState(model, hvd.DistributedOptimizer(plain), batch=0)
    failures: list[int] = []

    @hvd.elastic.run
    def function(state: Any) -> None:
        while state.batch < 4:
            state.optimizer.zero_grad()
            state.model(torch.ones(1, 2)).sum().backward()
            if state.batch == 2 and not failures:
                failures.append(hvd.rank())
                if hvd.rank() == hvd.size() - 1:
                    raise hvd.HorovodInternalError("made up")
            state.optimizer.step()
            state.batch += 1
            state.commit()

    function(state)
    torch.manual_seed(0)
    alone = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1, momentum=0.9)
    for _ in range(4):
        optimizer.zero_grad()
        alone(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    torch.testing.assert_close(model.weight, alone.weight)


def test_an_error_that_comes_back_is_let_through() -> None:
    @hvd.elastic.run
    def function(state: Any) -> None:
        raise hvd.HorovodInternalError("always")

    with pytest.raises(hvd.HorovodInternalError, match="always"):
        function(make())


def test_sampler() -> None:
    data = TensorDataset(torch.arange(10))
    sampler = hvd.elastic.ElasticSampler(data, seed=1)
    mine = list(sampler)
    assert len(mine) == len(sampler) == -(-10 // hvd.size())
    everyone = [index for share in hvd.allgather_object(mine) for index in share]
    assert sorted(everyone) == list(range(10))
    sampler.record_batch(0, 2)
    state = hvd.elastic.TorchState(sampler=sampler)
    state.commit()
    sampler.set_epoch(3)
    assert (sampler.epoch, sampler.processed_num) == (3, 0)
    state.restore()
    assert (sampler.epoch, sampler.processed_num) == (0, 2 * hvd.size())
    left = {index for share in hvd.allgather_object(list(sampler)) for index in share}
    assert len(left) == 10 - 2 * hvd.size()
