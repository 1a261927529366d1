"""What a training takes that a user has not said: by model and data, on any number of ranks."""

import json
from pathlib import Path
from typing import Any

import pytest

from phalanx.settings.defaults import defaults_of, outright, usual_reasons
from phalanx.settings.files import read_settings, settings_from
from phalanx.settings.table import Settings


def taken(**flags: Any) -> tuple[Any, ...]:
    found = read_settings(flags)
    batch = found.batch_size
    return found.optimizer, found.learning_rate, found.epochs, batch, found.normalise


def test_what_is_not_said_is_by_model_and_data() -> None:
    assert taken() == ("adam", 0.001, 30, 64, True)
    assert taken(model="logistic", dataset="iris") == ("adam", 0.01, 60, 16, True)
    assert taken(model="resnet20") == ("adam", 0.001, 10, 64, True)
    assert taken(dataset="npz") == ("adam", 0.001, 10, 64, False)
    own = defaults_of("net.py:make", "data.py:load")
    assert list(own.values()) == [10, 64, 0.001, False]
    assert taken(ranks=8, strategy="allreduce") == taken()


def test_what_is_said_stays() -> None:
    assert taken(epochs=2, batch_size="full", normalise=False) == ("adam", 0.001, 2, "full", False)
    assert taken(optimizer="sgd") == ("sgd", None, 30, 64, True)
    assert taken(optimizer="adamw", learning_rate=0.5) == ("adamw", 0.5, 30, 64, True)
    by_rank = read_settings({"batch_size_per_rank": 5})
    assert (by_rank.batch_size, by_rank.batch_size_per_rank) == (None, 5)


@pytest.mark.parametrize(
    ("given", "optimizer"),
    [
        ({"momentum": 0.9}, "sgd"),
        ({"optimizer_options": "nesterov=true", "momentum": 0.9}, "sgd"),
        ({"optimizer_options": "weight_decay=0.1"}, "adam"),
        ({"learning_rate": 0.1}, "adam"),
        ({"optimizer_options": "lambd=0.1"}, "adam"),  # whoever checks it says what it is of
    ],
)
def test_options_that_adam_does_not_have_are_those_of_sgd(
    given: dict[str, Any], optimizer: str
) -> None:
    assert read_settings(given).optimizer == optimizer


def test_a_file_says_what_stands_in_it(tmp_path: Path) -> None:
    toml = tmp_path / "a.toml"
    toml.write_text('epochs = 3\nnormalise = false\noptimizer = "sgd"\n')
    found = read_settings({}, toml)
    assert (found.epochs, found.normalise, found.optimizer) == (3, False, "sgd")
    assert found.batch_size == 64
    # A run's settings are all there, also those that nobody had chosen by then.
    saved = Settings(model="logistic").for_json()
    old = tmp_path / "config.json"
    old.write_text(json.dumps({"settings": saved}))
    assert read_settings({}, old) == Settings(model="logistic")
    assert settings_from(saved, source="run") == Settings(model="logistic")


def test_all_of_them_are_told() -> None:
    found = read_settings({"model": "resnet20"})
    assert outright(found) == {"optimizer": "adam", **defaults_of("resnet20", "digits")}
    told = usual_reasons(found)
    assert told["epochs"] == "default for digits and deep networks"
    assert told["learning_rate"] == "default for resnet20"
    assert set(usual_reasons(found.changed(epochs=3))) == {
        *("batch_size", "learning_rate", "normalise")
    }
    assert "batch_size" not in usual_reasons(read_settings({"batch_size_per_rank": 64}))
