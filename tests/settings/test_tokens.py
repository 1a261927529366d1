"""What a training on tokens is told, and what does not go with one."""

from typing import Any

import pytest

from phalanx.errors import UsageError
from phalanx.settings.files import read_settings
from phalanx.settings.rules import check_settings
from phalanx.settings.tokens import measured


def settings(**given: Any) -> Any:
    return read_settings({"dataset": "text", **given})


def test_defaults_that_learn() -> None:
    found = settings()
    assert (found.model, found.optimizer, found.learning_rate) == ("transformer", "adam", 0.003)
    assert (found.batch_size, found.epochs) == (32, 8)
    assert measured(found) == ("perplexity", "bits")
    check_settings(found, 1)


def test_what_is_said_counts() -> None:
    found = settings(optimizer="sgd", batch_size_per_rank=4, epochs=1, metrics=("bits", "top-5"))
    assert (found.optimizer, found.learning_rate, found.batch_size) == ("sgd", None, None)
    assert found.epochs == 1
    assert measured(found) == ("bits", "top-5", "perplexity")
    assert settings(learning_rate=0.1).learning_rate == 0.1


def test_others_are_as_they_were() -> None:
    found = read_settings({"dataset": "digits"})
    assert (found.model, found.metrics, measured(found)) == ("mlp", (), ())


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ({"model": "mlp"}, "--model mlp reads numbers, .* take --model transformer"),
        ({"dataset": "digits", "model": "transformer"}, "the samples of digits are numbers"),
        ({"loss": "hinge"}, "the mean cross-entropy over all tokens: leave out --loss"),
        ({"reduction": "sum"}, "leave out --loss and --reduction"),
        ({"normalise": True}, "--normalise is for numbers"),
        ({"crop": 2}, "--crop is for numbers"),
        (
            {"window_step": 8, "validation_split": 0.1},
            "a sample of 64 tokens has some in common with the next",
        ),
        ({"dataset": "digits", "loss": "hinge", "metrics": ("bits",)}, "--metrics bits says"),
        ({"stop_at": "top-5=0.5"}, "needs --metrics top-5"),
        ({"context_length": 0}, "--context-length must be at least 1"),
        ({"attention_heads": 0}, "--attention-heads must be at least 1"),
    ],
)
def test_what_does_not_go_together(given: dict[str, Any], cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        check_settings(settings(**given), 1)


def test_what_goes_together() -> None:
    check_settings(settings(stop_at="perplexity=1.5", validation_split=0.1), 1)
    check_settings(settings(window_step=64, validation_split=0.1), 1)
