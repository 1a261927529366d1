"""What follows the last layer of a multilayer perceptron."""

import pytest
import torch
from torch import nn

from phalanx import models
from phalanx.errors import UsageError
from phalanx.settings.rules import check_settings
from phalanx.settings.table import Settings


def build(**options: object) -> nn.Module:
    torch.manual_seed(0)
    return models.build("mlp", input_shape=(4,), classes=3, options={"hidden": (5,), **options})


@pytest.mark.parametrize(("name", "function"), [("sigmoid", torch.sigmoid), ("tanh", torch.tanh)])
def test_it_follows_the_last_layer(name: str, function: object) -> None:
    inputs = torch.randn(6, 4)
    assert callable(function)
    assert torch.equal(build(output_activation=name)(inputs), function(build()(inputs)))


def test_none_is_as_without() -> None:
    assert len(list(build(output_activation="none").modules())) == len(list(build().modules()))


def test_refusals() -> None:
    with pytest.raises(UsageError, match="output_activation must be one of none, sigmoid, tanh"):
        build(output_activation="relu")
    doubled = Settings(output_activation="sigmoid", loss="binary-cross-entropy")
    with pytest.raises(UsageError, match="has a sigmoid of its own: leave out --output-activation"):
        check_settings(doubled, 1)
