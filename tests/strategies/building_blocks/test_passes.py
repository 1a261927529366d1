"""A compiled pass computes what an eager one does; what does not compile runs as it is."""

import logging
import shutil

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD

from phalanx.comm.single import SingleCommunicator
from phalanx.data.split import Split
from phalanx.errors import UsageError
from phalanx.strategies.base import Loss, Task
from phalanx.strategies.building_blocks.passes import CompiledPass, EagerPass
from phalanx.train.trainer import Trainer


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8)
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.last = nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.relu(self.norm(self.first(inputs)))
        return self.last(self.frozen(hidden))  # type: ignore[no-any-return]


class Unruly(Net):
    """Decides by the numbers themselves, in a way that no transformation can follow."""

    def forward(self, inputs: Tensor) -> Tensor:
        spread: float = inputs.detach().numpy().std().item()
        return super().forward(inputs) * spread


def make_task(kind: type[nn.Module], *, compile: bool = True) -> Task:  # noqa: A002
    torch.manual_seed(1)
    model = kind()
    return Task(model, SGD(model.parameters(), lr=0.1), Loss(F.cross_entropy), compile=compile)


INPUTS, TARGETS = torch.randn(10, 6), torch.arange(10) % 3


def test_the_compiled_pass_equals_the_eager_one() -> None:
    eager, compiled = make_task(Net), make_task(Net)
    for _ in range(2):  # gradients add up
        expected = EagerPass(eager)(INPUTS, TARGETS, 0.5)
        got = CompiledPass(compiled, backend="aot_eager")._run(INPUTS, TARGETS, 0.5)
        for one, other in zip(got, expected, strict=True):
            torch.testing.assert_close(one, other.detach())
    pairs = zip(eager.model.parameters(), compiled.model.parameters(), strict=True)
    for one, other in pairs:
        assert (one.grad is None) == (other.grad is None)
        if one.grad is not None and other.grad is not None:
            torch.testing.assert_close(one.grad, other.grad)
    for before, after in zip(eager.model.buffers(), compiled.model.buffers(), strict=True):
        torch.testing.assert_close(before, after)


def test_what_does_not_compile_runs_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    task, plain = make_task(Unruly), make_task(Unruly)
    with caplog.at_level(logging.INFO, logger="phalanx"):
        CompiledPass(task, backend="aot_eager")(INPUTS, TARGETS, 1.0)
    EagerPass(plain)(INPUTS, TARGETS, 1.0)
    assert "--compile" in caplog.text
    for one, other in zip(task.model.buffers(), plain.model.buffers(), strict=True):
        assert torch.equal(one, other)


def test_compile_is_refused_with_shards() -> None:
    model = nn.Linear(6, 3)
    with pytest.raises(UsageError, match="leave out compile, or the shards"):
        Trainer(
            model,
            SGD(model.parameters(), lr=0.1),
            comm=SingleCommunicator(),
            shards=2,
            compile=True,
        )


@pytest.mark.long
def test_a_training_says_what_it_chose(caplog: pytest.LogCaptureFixture) -> None:
    model = Net()
    trainer = Trainer(
        model, SGD(model.parameters(), lr=0.1), comm=SingleCommunicator(), compile=True
    )
    with caplog.at_level(logging.INFO, logger="phalanx"):
        trainer.fit(Split(INPUTS, TARGETS), epochs=2, batch_size=5)
    # torch's compiler calls g++, and does not quote the paths that it gives it.
    can_compile = shutil.which("g++") is not None and " " not in torch.__file__
    assert ("ms compiled and" if can_compile else "does not compile") in caplog.text
