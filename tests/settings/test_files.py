"""Settings from files and flags, with what a user's own code declares."""

import json
from pathlib import Path

import pytest

from phalanx.errors import UsageError
from phalanx.settings.files import read_settings, settings_from
from phalanx.settings.table import SETTINGS, Settings

OWN = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Ring:
    neighbours: int = 1
    loud: bool = True

@dataclass(frozen=True)
class Taken:
    epochs: int = 3

def net(classes, width: int = 8, sizes=(1, 2)):
    pass

def twice(neighbours: int = 3):
    pass
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path


def written(text: str) -> Path:
    path = Path("settings.toml")
    path.write_text(text)
    return path


def test_declared_options_are_keys_and_flags_win(here: Path) -> None:
    file = written('strategy = "own.py:Ring"\nneighbours = 2\nmodel = "own.py:net"\nsizes = [3, 4]')
    settings = read_settings({"neighbours": 5, "epochs": 1}, file)
    assert settings.strategy_options == {"neighbours": 5}
    assert settings.model_options == {"sizes": (3, 4)}
    assert settings.epochs == 1


def test_false_is_a_choice(here: Path) -> None:
    settings = read_settings({"strategy": "own.py:Ring", "loud": False})
    assert settings.strategy_options == {"loud": False}


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('strategy = "own.py:Ring"\nneighbors = 2', "did you mean 'neighbours'?"),
        ("neighbours = 2", "unknown key 'neighbours'"),
        ('strategy = "own.py:Ring"\nneighbours = "x"', "'neighbours' must be a whole number"),
        ('strategy = "own.py:Nowhere"\nneighbours = 2', "Nowhere is not there in"),
        ('strategy = "own.py:Taken"', "own.py:Taken declares epochs, and --epochs is a flag of"),
        ('strategy = "own.py:Ring"\nmodel = "own.py:twice"', "--neighbours would be an option of"),
    ],
)
def test_what_cannot_be_a_key(here: Path, text: str, cause: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_settings({}, written(text))
    assert cause in str(refused.value)


def test_a_runs_settings_need_no_code(here: Path) -> None:
    values = {"strategy": "own.py:Ring", "neighbours": 2, "model": "own.py:net", "sizes": (3, 4)}
    settings = read_settings(values)
    stored = json.loads(json.dumps(settings.for_json()))
    assert stored["own"] == {"strategy": {"neighbours": 2}, "model": {"sizes": [3, 4]}}
    (here / "own.py").unlink()
    assert settings_from(stored, source="config.json") == settings


def test_the_config_of_a_run_starts_another(here: Path) -> None:
    settings = read_settings({"strategy": "own.py:Ring", "neighbours": 2})
    Path("config.json").write_text(json.dumps({"settings": settings.for_json()}))
    again = read_settings({"loud": False}, Path("config.json"))
    assert again.strategy_options == {"neighbours": 2, "loud": False}


def test_another_strategy_has_other_options(here: Path) -> None:
    settings = read_settings(
        {"strategy": "own.py:Ring", "neighbours": 2, "model": "own.py:net", "width": 4, "every": 3}
    )
    local = settings.with_strategy("local", {"every": 4})
    assert (local.strategy, local.strategy_options) == ("local", {"every": 4})
    assert local.model_options == {"width": 4}
    ring = local.with_strategy("own.py:Ring", {"neighbours": 3})
    assert ring.strategy_options == {"neighbours": 3}


def test_every_option_that_is_declared_is_a_setting() -> None:
    from phalanx import data, models
    from phalanx.strategies import registry

    for option in (*data.OPTIONS, *models.OPTIONS, *registry.OPTIONS):
        setting = SETTINGS[option.name]
        assert setting.help.endswith(option.help)
        assert (setting.choices, setting.rule) == (option.choices, option.rule)
        assert getattr(Settings(), option.name) in (None, False)
    assert SETTINGS["every"].text == "local: average the weights every N steps [default: 8]"
    assert SETTINGS["replicas"].text.startswith("pipeline, tensor: ")
    assert SETTINGS["flip"].text.startswith("Mirror")


def test_a_key_in_two_spellings_is_refused(here: Path) -> None:
    config = written("batch_size = 8\nbatch-size = 16\n")
    with pytest.raises(UsageError, match="has both 'batch-size' and 'batch_size': leave one out"):
        read_settings({}, config)


def test_numbers_too_large_for_any_setting(here: Path) -> None:
    from phalanx.settings.rules import check_settings

    with pytest.raises(UsageError, match="a whole number of more than 64 bits"):
        read_settings({}, written(f"epochs = {10**400}\n"))
    huge = read_settings({"learning_rate": float("inf"), "hidden": (10**400,)})
    with pytest.raises(UsageError, match="learning-rate"):
        check_settings(huge, 1)


def test_a_config_nested_without_end(here: Path) -> None:
    (here / "deep.json").write_text("[" * 100_000)
    for config in (here / "deep.json", written("epochs = " + "[" * 100_000)):
        with pytest.raises(UsageError, match="nested more than 50 levels deep"):
            read_settings({}, config)
