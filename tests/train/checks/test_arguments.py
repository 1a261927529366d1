"""A sentence for whatever a Trainer cannot take."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD
from torch.utils.data import DataLoader, TensorDataset

from phalanx import Dataset, Split, Trainer
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError

SPLIT = Split(torch.linspace(-1, 1, 40).view(10, 4), torch.arange(10) % 3)


def make_trainer(model: nn.Module | None = None, **options: Any) -> Trainer:
    model = nn.Linear(4, 3) if model is None else model
    optimizer = SGD(model.parameters(), lr=0.1)
    return Trainer(model, optimizer, comm=SingleCommunicator(), **options)


class Named(nn.Module):
    """Gives its outputs by name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        return {"logits": self.layer(inputs)}


def test_no_model_and_no_optimizer() -> None:
    model = nn.Linear(4, 3)
    with pytest.raises(UsageError, match=r"trains an nn\.Module, not a function"):
        Trainer(lambda inputs: inputs, SGD(model.parameters()))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"such as torch.optim.Adam\(model.parameters.* a str"):
        Trainer(model, "adam")  # type: ignore[arg-type]


def test_an_optimizer_of_another_model_would_train_nothing() -> None:
    other = nn.Linear(4, 3)
    with pytest.raises(UsageError, match="holds no parameter of the model, and would train noth"):
        Trainer(nn.Linear(4, 3), SGD(other.parameters(), lr=0.1), comm=SingleCommunicator())


SAMPLES: dict[str, tuple[Callable[[], Any], str]] = {
    "loader": (
        lambda: DataLoader(TensorDataset(SPLIT.inputs, SPLIT.targets)),
        r"a DataLoader has an order and batches of its own.*loader\.dataset, batch_size=1\)",
    ),
    "number": (lambda: 3, r"phalanx.Split\(inputs, targets\), not an int"),
    "three tensors": (lambda: (SPLIT.inputs,) * 3, r"no pair \(inputs, targets\) but a tuple of 3"),
    "data set": (lambda: Dataset("own", SPLIT, SPLIT, ("a", "b", "c")), "its .train or its .test"),
    "empty": (lambda: SPLIT.subset(torch.arange(0)), "not one sample to"),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_samples_of_another_kind(kind: str) -> None:
    make, message = SAMPLES[kind]
    trainer = make_trainer()
    with pytest.raises(UsageError, match=message):
        trainer.fit(make(), epochs=1, batch_size=4)
    with pytest.raises(UsageError, match=message):
        trainer.evaluate(make())
    with pytest.raises(UsageError, match=message):
        trainer.predict(make())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epochs": -1}, "epochs must be 0 or more, got -1"),
        ({"steps_per_epoch": 0}, "steps_per_epoch must be 1 or more, got 0"),
        ({"steps": -2}, "steps must be 1 or more, got -2"),
        ({"batch_size": 0}, "the batch size must be 1 or more, got 0"),
        ({"epochs": 1.5}, "epochs must be a whole number, not 1.5"),
        ({"epochs": "2"}, "epochs must be a whole number, not '2'"),
        ({"batch_size": 5.5}, "batch_size must be a whole number, not 5.5"),
    ],
)
def test_lengths_that_cannot_be_meant(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_trainer().fit(SPLIT, **({"epochs": 1, "batch_size": 4} | given))


def test_classes_that_are_no_whole_numbers() -> None:
    with pytest.raises(UsageError, match=r"targets are float32: give targets\.long\(\)"):
        make_trainer().fit(Split(SPLIT.inputs, SPLIT.targets.float()), epochs=1, batch_size=4)


def test_outputs_and_losses_of_another_kind() -> None:
    trainer = make_trainer(Named())
    with pytest.raises(UsageError, match="Named gives a dict, and a loss takes one tensor"):
        trainer.fit(SPLIT, epochs=1, batch_size=4)
    with pytest.raises(UsageError, match="Named gives a dict"):
        trainer.evaluate(SPLIT)
    trainer = make_trainer(loss=lambda outputs, targets: outputs)
    with pytest.raises(UsageError, match=r"the loss gives a tensor of \[4, 3\], and must give one"):
        trainer.fit(SPLIT, epochs=1, batch_size=4)


@pytest.mark.parametrize("kind", ["regression", "several labels"])
def test_what_has_no_classes_has_no_accuracy(kind: str) -> None:
    targets = {
        "regression": torch.rand(10, 3),
        "several labels": (torch.rand(10, 3) > 0.5).float(),
    }[kind]
    trainer = make_trainer(loss=nn.MSELoss(), metrics=("top-5",))
    split = Split(SPLIT.inputs, targets)
    (epoch,) = trainer.fit(split, epochs=1, batch_size=4, validation=split)
    metrics = trainer.evaluate(split)
    assert metrics.accuracy is None
    assert metrics.more == {}
    assert "accuracy" not in str(metrics)
    assert (epoch.row({})["accuracy"], epoch.row({})["validation_accuracy"]) == ("", "")


def test_parameters_set_free_in_a_callback() -> None:
    trainer = make_trainer(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3)))

    def freeze(_: object) -> None:
        next(trainer.model.parameters()).requires_grad = False

    with pytest.raises(UsageError, match="parameters have been frozen, set free"):
        trainer.fit(SPLIT, epochs=2, batch_size=4, on_epoch=freeze)


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))


@pytest.mark.parametrize("options", [{"shards": 4}, {"accumulate": 2}])
def test_parts_of_one_sample_are_nothing_for_batch_norm(options: dict[str, int]) -> None:
    """The last batch of 10 samples in eights has 2; said before the first step, not at its end."""
    trainer = make_trainer(normalised(), **options)
    before = trainer.state()
    with pytest.raises(UsageError, match=r"a batch of 2 samples .*BatchNorm cannot .*_epoch=1\)"):
        trainer.fit(SPLIT, epochs=1, batch_size=8)
    assert trainer.position.step == 0
    for name, tensor in trainer.state().tensors.items():
        torch.testing.assert_close(tensor, before.tensors[name], rtol=0, atol=0)
    trainer.fit(SPLIT, epochs=1, batch_size=8, steps_per_epoch=1)


@pytest.mark.ranks(2)
def test_parts_of_one_sample_on_several_ranks(comm: Communicator) -> None:
    model = normalised()
    trainer = Trainer(model, SGD(model.parameters(), lr=0.1), comm=comm)
    with pytest.raises(UsageError, match="a batch of 2 samples"):
        trainer.fit(SPLIT, epochs=1, batch_size=8)
    # What has more than one number for each channel in one sample can be trained on it.
    images = nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(4, 3)
    )
    trainer = Trainer(images, SGD(images.parameters(), lr=0.1), comm=comm)
    trainer.fit(SPLIT, epochs=1, batch_size=8)
