"""What may change about a training that is gone on with, and what may not."""

from pathlib import Path
from typing import Any

import pytest

from phalanx.errors import UsageError
from phalanx.options import check_values
from phalanx.settings.files import read_settings
from phalanx.settings.panels import names_in
from phalanx.settings.resuming import FIXED, check_changes, merged
from phalanx.settings.table import SETTINGS, Settings

SAVED = Settings(
    ranks=2,
    strategy="local",
    every=4,
    threads=1,
    batch_size=32,
    seed=3,
    hidden=(8,),
    loss="cross-entropy",
)


def changed(saved: Settings = SAVED, *, ranks: int = 2, **given: Any) -> Settings:
    """The settings of a run with other ones; raises if they cannot be."""
    now = merged(saved, Settings(**given), given)
    check_changes(saved, now, ranks=ranks, run="runs/one")
    return now


@pytest.mark.parametrize(
    "given",
    [
        {"epochs": 9, "learning_rate": 0.5, "patience": 2, "stop_at": "loss=0.1"},
        {"clip_norm": 1.0, "accumulate": 2, "profile": True, "keep": 7, "keep_best": True},
        {"threads": 2, "device": "cpu", "checkpoint_every": "never", "data_dir": Path("moved")},
        {"seed": 3, "batch_size": 32, "hidden": (8,), "dataset": "digits"},  # as they were
        {"batch_size_per_rank": 16},
    ],
    ids=str,
)
def test_what_may_change(given: dict[str, Any]) -> None:
    now = changed(**given)
    assert {name: getattr(now, name) for name in given} == given
    assert (now.strategy, now.every) == ("local", 4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seed": 4}, "--seed 4: runs/one was trained with 3, which cannot change .*the order of"),
        ({"shards": 4}, "--shards 4: runs/one was trained with none, .*to the last bit"),
        ({"dataset": "iris"}, "--dataset iris: runs/one was trained with digits, .*the samples"),
        ({"schedule_min_rate": 0.1}, "--schedule-min-rate 0.1: runs/one .*middle of its way"),
        ({"flip": True}, "--flip it: runs/one was trained with nothing of it, .*the samples"),
        ({"validation_split": 0.1}, "--validation-split 0.1: .*the samples would be others"),
        ({"model": "logistic"}, "--model logistic: runs/one was trained with mlp, .*the weights"),
        ({"hidden": (8, 4)}, "--hidden 8,4: runs/one was trained with 8, .*the weights of"),
        ({"weights": Path("x")}, "--weights x: runs/one was trained with none"),
        ({"optimizer": "sgd"}, "--optimizer sgd: runs/one was trained with adam, .*has kept"),
        ({"momentum": 0.5}, "--momentum 0.5: runs/one was trained with none"),
        ({"loss": "hinge"}, "--loss hinge: runs/one was trained with cross-entropy"),
        ({"dtype": "float64"}, "--dtype float64: runs/one was trained with float32, .*kept in"),
        ({"metrics": ("top-5",)}, "--metrics top-5: runs/one was trained with none"),
        ({"schedule": "cosine"}, "--schedule cosine: runs/one was trained with constant"),
        ({"steps_per_epoch": 2}, "--steps-per-epoch 2: runs/one was trained with none"),
        ({"batch_size": 64}, "--batch-size 64: runs/one was trained with 32, .*in batches"),
        ({"batch_size_per_rank": 8}, "--batch-size 16: runs/one was trained with 32"),
    ],
    ids=str,
)
def test_what_may_not(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message}.*: leave it out, or start a new training$"):
        changed(**given)


def test_everything_about_data_and_model_is_decided() -> None:
    assert {*names_in("Data", "Model")} - FIXED.keys() == {"data_dir"}


def test_another_strategy_has_its_own_options() -> None:
    now = changed(strategy="central")
    assert (now.strategy, now.every) == ("central", None)
    assert changed(strategy="local").every == 4
    assert changed(every=5).every == 5


def test_a_batch_by_the_rank_stays_what_it_is_over_all() -> None:
    saved = SAVED.changed(batch_size=None, batch_size_per_rank=16)
    assert changed(saved).batch_size_per_rank == 16
    with pytest.raises(
        UsageError,
        match=r"with 32 samples a step, 16 for each rank that trains; it would be 48 now, .*: "
        r"add --batch-size 32$",
    ):
        changed(saved, ranks=3)
    now = changed(saved, ranks=3, batch_size=32)
    assert (now.batch_size, now.batch_size_per_rank) == (32, None)


def test_code_of_a_users_own() -> None:
    """It may have moved; its options are those that it had, and of a model they stay so."""
    saved = SAVED.changed(model="net.py:make", own={"model": {"width": 4}}, hidden=None)
    now = merged(saved, Settings(model="moved/net.py:make"), ["model"])
    assert (now.model, now.own) == ("moved/net.py:make", {"model": {"width": 4}})
    check_changes(saved, now, ranks=2, run="runs/one")
    other = merged(saved, Settings(own={"model": {"width": 5}}), [])
    with pytest.raises(UsageError, match="--width 5: runs/one was trained with 4"):
        check_changes(saved, other, ranks=2, run="runs/one")


@pytest.mark.parametrize("written", ["500", "'500'", "'5m'", "'1 epoch'", "'never'"])
def test_how_often_in_a_file(tmp_path: Path, written: str) -> None:
    (tmp_path / "settings.toml").write_text(f"checkpoint-every = {written}\nkeep = 3\n")
    settings = read_settings({}, tmp_path / "settings.toml")
    assert str(settings.checkpoint_every) == written.strip("'")
    check_values(SETTINGS.values(), vars(settings))
    assert settings.keep == 3
