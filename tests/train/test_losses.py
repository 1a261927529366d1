"""Losses against their definitions."""

import pytest
import torch
from torch import Tensor, nn

from phalanx.errors import UsageError
from phalanx.strategies.base import Loss, Reduction
from phalanx.train.losses import as_loss, make_loss

OUTPUTS = torch.tensor([[2.0, -1.0, 0.5], [0.0, 1.5, -0.5]])
TARGETS = torch.tensor([0, 2])
WANTED = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


def by_hand(name: str) -> Tensor:
    """The loss of each sample; means over outputs for the two errors."""
    likely = OUTPUTS.softmax(1)
    yes = OUTPUTS.sigmoid()
    right = OUTPUTS.gather(1, TARGETS[:, None])
    return {
        "cross-entropy": -likely.gather(1, TARGETS[:, None]).log().squeeze(1),
        "binary-cross-entropy": -(WANTED * yes.log() + (1 - WANTED) * (1 - yes).log()).sum(1),
        "squared-error": (OUTPUTS - WANTED).square().mean(1),
        "absolute-error": (OUTPUTS - WANTED).abs().mean(1),
        "hinge": ((1 - right + OUTPUTS).clamp(min=0) * (1 - WANTED)).sum(1) / 3,
    }[name]


def loss_of(loss: Loss, outputs: Tensor) -> Tensor:
    """The loss over all samples, however it is put together."""
    value = loss.function(outputs, TARGETS)
    return value if loss.weigh is None else value / loss.weight(TARGETS)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(
    "name",
    ["cross-entropy", "binary-cross-entropy", "squared-error", "absolute-error", "hinge"],
)
def test_every_loss(name: str, reduction: Reduction) -> None:
    value = loss_of(make_loss(name, reduction), OUTPUTS)
    samples = by_hand(name)
    # A sum of errors goes over outputs, too, as torch's does.
    factor = 3 if name.endswith("-error") else 1
    expected = samples.mean() if reduction == "mean" else factor * samples.sum()
    torch.testing.assert_close(value, expected)
    # These outputs are what they are in 16 bits, too.
    half = loss_of(make_loss(name, reduction), OUTPUTS.bfloat16())
    torch.testing.assert_close(half.float(), expected, rtol=0.01, atol=0.01)


def test_torchs_own_losses() -> None:
    mean, total = as_loss(nn.CrossEntropyLoss()), as_loss(nn.CrossEntropyLoss(reduction="sum"))
    assert (mean.reduction, total.reduction) == ("mean", "sum")
    torch.testing.assert_close(loss_of(mean, OUTPUTS), by_hand("cross-entropy").mean())
    kept = Loss(nn.functional.mse_loss)
    assert as_loss(kept) is kept


def test_losses_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="did you mean 'cross-entropy'"):
        as_loss("crossentropy")
    with pytest.raises(UsageError, match="a mean or a sum over the samples, not 'none'"):
        as_loss(nn.CrossEntropyLoss(reduction="none"))
    with pytest.raises(UsageError, match=r"loss=MSELoss is a class: .* loss=MSELoss\(\)"):
        as_loss(nn.MSELoss)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"a function of outputs and targets, .* not an int"):
        as_loss(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="TripletMarginLoss is a loss of anchor, positive, neg"):
        as_loss(nn.TripletMarginLoss())


def test_targets_of_another_shape_are_not_stretched() -> None:
    with pytest.raises(UsageError, match=r"shape \(2,\) do not go with outputs of \(2, 1\)"):
        make_loss("squared-error").function(torch.ones(2, 1), torch.ones(2))
