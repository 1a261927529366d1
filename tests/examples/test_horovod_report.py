"""The programs of the report on Horovod: what they learn, what they save, and their table."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import phalanx.horovod.torch as hvd
from examples.horovod_report.data import load_digits
from examples.horovod_report.run import BACKENDS
from examples.horovod_report.torch_program import BATCH_SIZE, train
from tests.examples.conftest import Example

EPOCHS = 2


def test_samples_have_as_many_values_as_the_network_takes() -> None:
    train, test = load_digits()
    assert train.inputs.shape == (1438, 500)
    assert test.inputs.shape == (359, 500)
    assert (train.inputs.min(), train.inputs.max()) == (0, 1)


@pytest.mark.usefixtures("horovod")
@pytest.mark.ranks(1, 2)
def test_the_torch_program_is_plain_torch_on_the_batches_of_all_ranks(shared_path: Path) -> None:
    size = hvd.size()
    model, accuracy = train(epochs=EPOCHS, folder=shared_path)
    expected, expected_accuracy = sequential(size)
    hvd.barrier()
    saved = torch.load(shared_path / "model.pt")
    assert [tuple(one.shape) for one in saved.values()] == [
        *((256, 500), (256,)),
        *((10, 256), (10,)),
    ]
    for name, value in model.state_dict().items():
        assert torch.equal(saved[name], value)
        torch.testing.assert_close(value, expected.state_dict()[name], rtol=1e-5, atol=1e-5)
    assert accuracy == pytest.approx(expected_accuracy, abs=1 / 359)


def sequential(ranks: int) -> tuple[nn.Module, float]:
    """The same training without Horovod, on the batches of so many ranks joined."""
    training, test = load_digits()
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(500, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * ranks)
    for epoch in range(EPOCHS):
        generator = torch.Generator().manual_seed(epoch)
        order = torch.randperm(len(training.targets), generator=generator)
        for batch in order.split(BATCH_SIZE * ranks):  # type: ignore[no-untyped-call]
            optimizer.zero_grad()
            outputs = model(training.inputs[batch])
            F.cross_entropy(outputs, training.targets[batch]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    with torch.no_grad():
        right = model(test.inputs).argmax(1) == test.targets
    return model, right.double().mean().item()


@pytest.mark.long
def test_the_table_of_the_torch_program(example: Example, tmp_path: Path) -> None:
    shown = example(
        *("horovod_report.run", "--frameworks", "torch", "--ranks", 1, 2, 4),
        *("--epochs", 12, "--output", tmp_path),
    )
    assert "phalanx run -n 2 python -m examples.horovod_report.torch_program" in shown
    assert rows_of(shown) == [("PyTorch", 1), ("PyTorch", 2), ("PyTorch", 4)]


@pytest.mark.long
def test_the_table_of_the_keras_program(example: Example, tmp_path: Path) -> None:
    if find_spec("keras") is None:
        pytest.skip("Keras is not installed")
    shown = example(
        *("horovod_report.run", "--frameworks", "keras", "--ranks", 1, 2),
        *("--epochs", 12, "--output", tmp_path),
    )
    here = [name for name in BACKENDS if find_spec(name) is not None]
    assert rows_of(shown) == [(f"Keras on {name}", ranks) for name in here for ranks in (1, 2)]
    for name in set(BACKENDS) - set(here):
        assert f"Keras on {name} is left out: {name} is not installed here." in shown
    for name, ranks in ((name, ranks) for name in here for ranks in (1, 2)):
        assert (tmp_path / f"keras_program-{name}-{ranks}" / "model.keras").exists()


def rows_of(shown: str) -> list[tuple[str, int]]:
    """Framework and ranks of each row of the table, whose accuracies are no chance."""
    rows = re.findall(r"^│ (\S.*?) +│ +(\d+) │ +[\d.]+ s │ +([\d.]+)% │$", shown, re.MULTILINE)
    assert all(float(accuracy) > 90 for _, _, accuracy in rows)
    return [(framework, int(ranks)) for framework, ranks, _ in rows]
