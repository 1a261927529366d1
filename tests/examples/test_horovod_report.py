"""The programs of the report on Horovod: what they learn, what they save, and their table."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from examples.horovod_report.data import load_digits
from examples.horovod_report.run import BACKENDS
from tests.examples.conftest import Example


def test_samples_have_as_many_values_as_the_network_takes() -> None:
    train, test = load_digits()
    assert train.inputs.shape == (1438, 500)
    assert test.inputs.shape == (359, 500)
    assert (train.inputs.min(), train.inputs.max()) == (0, 1)


def test_the_torch_program_on_one_rank_and_two(example: Example, tmp_path: Path) -> None:
    shown = example(
        *("horovod_report.run", "--frameworks", "torch", "--ranks", 1, 2),
        *("--epochs", 12, "--output", tmp_path),
    )
    assert "phalanx run -n 2 python -m examples.horovod_report.torch_program" in shown
    assert rows_of(shown) == [("PyTorch", 1), ("PyTorch", 2)]
    for ranks in (1, 2):  # saved by rank 0 alone
        weights = torch.load(tmp_path / f"torch_program-torch-{ranks}" / "model.pt")
        assert [tuple(one.shape) for one in weights.values()] == [
            *((256, 500), (256,)),
            *((10, 256), (10,)),
        ]


@pytest.mark.long
def test_the_keras_program_on_one_rank_and_two(example: Example, tmp_path: Path) -> None:
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
