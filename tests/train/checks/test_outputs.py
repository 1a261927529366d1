"""A user's own model is asked for its form before it is trained."""

import pytest
import torch
from torch import Tensor, nn

from phalanx.errors import UsageError
from phalanx.train.checks.outputs import check_outputs


class Pair(nn.Module):
    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        return inputs, inputs


class OnlyBatches(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        if len(inputs) < 2:
            raise ValueError("too few")
        return inputs


def check(model: nn.Module) -> None:
    check_outputs(model, "net.py:make", input_shape=(4,), classes=3, dtype=torch.float32)


@pytest.mark.parametrize(
    ("model", "cause"),
    [
        (nn.Linear(4, 5), r"outputs of the shape \(1, 5\) for one sample, and 3 classes"),
        (Pair(), "gives a tuple, and one tensor"),
    ],
    ids=["size", "tuple"],
)
def test_another_form_is_refused(model: nn.Module, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        check(model)


@pytest.mark.parametrize("model", [nn.Linear(4, 3), OnlyBatches()], ids=["right", "unknown"])
def test_the_right_form_and_one_that_cannot_be_told_are_not(model: nn.Module) -> None:
    before = torch.random.get_rng_state()
    check(model.train())
    assert model.training
    assert torch.equal(before, torch.random.get_rng_state())
