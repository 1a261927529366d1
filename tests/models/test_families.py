"""A member of every family, on images as small as it takes: it trains, on two ranks as on one."""

from collections.abc import Mapping

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.split import Split
from phalanx.models import build, describe
from phalanx.models.table import layer_rows, parameter_count
from phalanx.runs.weights import weights_digest
from phalanx.train.trainer import Trainer

SHAPES = {
    "logistic": (1, 4, 4),
    "mlp": (1, 4, 4),
    "simplecnn": (1, 4, 4),
    "lenet5": (1, 12, 12),
    "alexnet": (1, 16, 16),
    "vgg11-bn": (1, 32, 32),
    "resnet20": (1, 8, 8),
    "resnet18": (1, 16, 16),
    "densenet121": (1, 16, 16),
    "googlenet": (1, 8, 8),
    "inception-v3": (1, 11, 11),
    "mobilenet-v1": (1, 17, 17),
    "pydtnn-vgg3dobn": (1, 8, 8),
    "transformer": (6,),
}
OPTIONS: Mapping[str, Mapping[str, object]] = {
    "mlp": {"hidden": (8, 8), "standardise": True},
    "transformer": {"dropout_rate": 0.2},
}
CLASSES = 3


def make_model(name: str) -> nn.Sequential:
    torch.manual_seed(5)
    model = build(name, input_shape=SHAPES[name], classes=CLASSES, options=OPTIONS.get(name))
    assert isinstance(model, nn.Sequential)
    return model


def make_samples(name: str, count: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(6)
    if name == "transformer":  # reads tokens, and answers for each
        tokens = torch.randint(CLASSES, (2, count, *SHAPES[name]), generator=generator)
        return tokens[0], tokens[1]
    inputs = torch.randn(count, *SHAPES[name], generator=generator)
    return inputs, torch.randint(CLASSES, (count,), generator=generator)


def test_every_family_is_here() -> None:
    modules = {entry.name: entry.module for entry in describe()}
    assert {modules[name] for name in SHAPES} == set(modules.values())


@pytest.mark.parametrize("name", SHAPES)
def test_a_step_cut_between_all_layers_equals_one_in_a_piece(name: str) -> None:
    model = make_model(name)
    inputs, targets = make_samples(name)

    torch.manual_seed(7)
    F.cross_entropy(model(inputs), targets).backward()  # type: ignore[no-untyped-call]
    whole = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    torch.manual_seed(7)
    # Autograd refuses a change in place of what a stage receives.
    received, sent = [], [inputs]
    for layer in model:
        last = sent[-1].detach()
        received.append(last.requires_grad_(last.is_floating_point()))
        sent.append(layer(received[-1]))
    F.cross_entropy(sent[-1], targets).backward()  # type: ignore[no-untyped-call]
    for before, after in zip(reversed(received), reversed(sent[:-1]), strict=True):
        if after.requires_grad:
            after.backward(before.grad)  # type: ignore[no-untyped-call]
    for one, parameter in zip(whole, model.parameters(), strict=True):
        assert one is not None
        assert one.isfinite().all()
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, one)


@pytest.mark.parametrize("name", ["mlp", "lenet5", "resnet18", "densenet121", "googlenet"])
def test_the_table_of_layers_is_complete(name: str) -> None:
    with torch.device("meta"):
        model = make_model(name)
        rows = layer_rows(model, SHAPES[name])
    assert sum(row.parameters for row in rows) == parameter_count(model)
    assert all(row.output_shape is not None for row in rows)
    assert rows[-1].output_shape == (CLASSES,)


def train(name: str, comm: Communicator, *, strategy: str) -> str:
    """The fingerprint of weights and running statistics after a step in two fixed shards."""
    model = make_model(name)
    optimizer = SGD(model.parameters(), lr=0.01, momentum=0.9)
    trainer = Trainer(model, optimizer, strategy=strategy, comm=comm, seed=5, shards=2)
    (epoch,) = trainer.fit(Split(*make_samples(name)), epochs=1, batch_size=4)
    trainer.sync()
    assert torch.tensor(epoch.train.loss).isfinite()
    return weights_digest(model)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("name", SHAPES)
def test_two_ranks_equal_one(comm: Communicator, name: str) -> None:
    digests = comm.allgather_objects(train(name, comm, strategy="allreduce"))
    assert set(digests) == {train(name, SingleCommunicator(), strategy="single")}
