"""What does not go with a task is refused, in a sentence that says what does."""

from typing import Any

import pytest

from phalanx.errors import UsageError
from phalanx.settings.metrics import parse_goal
from phalanx.settings.rules import check_settings
from phalanx.settings.table import Settings
from phalanx.settings.task_options import LOSSES, loss_of
from phalanx.settings.tasks import check_task


@pytest.mark.parametrize(
    ("task", "given", "cause"),
    [
        ("regression", {"loss": "cross-entropy"}, "cross-entropy is not for regression: take sq"),
        ("multi-label", {"loss": "hinge"}, "--loss hinge is not for multi-label: take binary-cr"),
        ("regression", {"metrics": ("top-5",)}, "top-5 is not for regression: take r2, mae, rmse"),
        ("multi-label", {"metrics": ("confusion",)}, "--metrics confusion is not for multi-label"),
        ("classification", {"metrics": ("r2",)}, "--metrics r2 is not for classification"),
        ("regression", {"stop_at": "accuracy=0.9"}, "stop at one of loss, r2, mae, rmse"),
        ("classification", {"stop_at": "mae=0.1"}, "accuracy, or add --metrics mae"),
        (
            "multi-label",
            {"stop_at": "auroc=0.9", "metrics": ("auroc",)},
            "on samples that are held out: add --validation-split",
        ),
        ("multi-label", {"output_activation": "sigmoid"}, "has a sigmoid of its own"),
        ("regression", {"output_activation": "tanh"}, "or add --raw-targets"),
        ("classification", {"raw_targets": True}, "is for regression, not for class"),
    ],
)
def test_what_does_not_go_together(task: str, given: dict[str, Any], cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        check_task(Settings(**given), task)


def test_what_does() -> None:
    check_task(Settings(loss="absolute-error", stop_at="r2=0.9", metrics=("mse",)), "regression")
    check_task(Settings(output_activation="tanh", raw_targets=True), "regression")
    held = Settings(stop_at="auroc=0.9", metrics=("auroc",), validation_split=0.1)
    check_task(held, "multi-label")
    for loss in LOSSES["classification"]:
        check_task(Settings(loss=loss, metrics=("f1-macro", "auroc")), "classification")


def test_each_task_has_its_loss() -> None:
    assert loss_of(None, None) == loss_of("classification", None) == "cross-entropy"
    assert loss_of("regression", None) == "squared-error"
    assert loss_of("multi-label", None) == "binary-cross-entropy"
    assert loss_of("regression", "absolute-error") == "absolute-error"


def test_data_sets_of_classes_are_for_nothing_else() -> None:
    check_settings(Settings(task="classification"), 1)
    with pytest.raises(UsageError, match="targets of data set digits are classes: leave it out"):
        check_settings(Settings(task="regression"), 1)
    with pytest.raises(UsageError, match="--metrics rmse is not for classification"):
        check_settings(Settings(metrics=("rmse",)), 1)
    with pytest.raises(UsageError, match="must be one of classification, regression, multi-label"):
        check_settings(Settings(task="regresion"), 1)


def test_goals() -> None:
    assert parse_goal("r2=0.9") == ("r2", 0.9)
    assert parse_goal("rmse=1200") == ("rmse", 1200)
    with pytest.raises(UsageError, match="f1-macro is a share"):
        parse_goal("f1-macro=90")
