"""PyDTNN's first version and its later ones: their defaults, their lists, their schedulers."""

import re
from pathlib import Path

import pytest

from phalanx.cli.output.pydtnn import show_model
from phalanx.cli.pydtnn import pydtnn
from phalanx.compat.pydtnn import translate
from phalanx.compat.pydtnn_versions import FIRST
from phalanx.errors import UsageError
from phalanx.settings.table import Settings
from tests.compat.test_pydtnn import README, settings, translated

#: What the README shows for its command.
SHOWN = """model: simplecnn, dataset: mnist, dataset_train_path: ../datasets/mnist,
    dataset_test_path: ../datasets/mnist, test_as_validation: False, batch_size: 64,
    validation_split: 0.2, steps_per_epoch: 0, num_epochs: 10, evaluate: True, optimizer: Adam,
    learning_rate: 0.01, decay_rate: 0.99, epsilon: 1e-08, momentum: 0.9,
    loss_func: categorical_accuracy;categorical_cross_entropy, parallel: data, blocking_mpi: True,
    tracing: False, profile: False, enable_gpu: False, dtype: float32"""


def test_the_22_parameters_of_its_readme() -> None:
    found = [f"{name}: {value}" for name, value in translated(README).parameters.items()]
    assert found == [one.strip().replace(";", ",") for one in re.split(r",\s+", SHOWN)]
    assert len(found) == len(FIRST) == 22


def test_the_table_of_its_readme(capsys: pytest.CaptureFixture[str]) -> None:
    show_model("pydtnn-simplecnn", {}, input_shape=(1, 28, 28), classes=10)
    shown = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in capsys.readouterr().out.splitlines()
        if "│" in line
    ]
    assert shown[1] == ["0", "Input", "0", "(1, 28, 28)", "", "", ""]
    assert shown[2] == ["1", "Conv2D", "40", "(4, 26, 26)", "(4, 1, 3, 3)", "0", "1"]
    assert shown[7] == ["6", "FC", "147584", "(128,)", "(1152, 128)", "", ""]
    assert shown[10] == ["9", "Softmax", "0", "(10,)", "", "", ""]
    assert len(shown) == 11


def test_the_command_shows_both(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Context:
        args = ("--learning_rate=0.5",)

    trained: list[Settings] = []
    monkeypatch.setattr("phalanx.cli.pydtnn.train_as", lambda one, **_: trained.append(one))
    pydtnn(Context())  # type: ignore[arg-type]
    shown = capsys.readouterr().out
    assert shown.startswith("$ phalanx train --dataset=mnist --model=pydtnn-simplecnn")
    assert "  learning_rate      : 0.5\n  decay_rate         : 0.99\n" in shown
    assert "Softmax" in shown
    assert trained[0].learning_rate == 0.5


def test_any_other_option_is_of_a_later_version() -> None:
    found = settings("--enable_conv_gemm=True")
    assert found["model"] == "pydtnn-simplecnn-dropout"
    assert (found["validation_split"], found["momentum"]) == (0.2, 0.9)
    # What a later version does unless told otherwise.
    assert (found["patience"], found["schedule"], found["keep_best"]) == (10, "plateau", True)
    assert "patience" not in settings("--enable_conv_gemm=True --lr_schedulers=")
    assert "patience" not in settings("--non_blocking_mpi --parallel=data")


def test_plain_sgd_of_the_first_version_has_no_momentum() -> None:
    assert settings("--optimizer=SGD")["momentum"] == 0.0
    assert settings("--optimizer=SGDMomentum")["momentum"] == 0.9
    assert settings("--optimizer=SGD --nesterov")["momentum"] == 0.9
    assert translated("--optimizer=SGD --momentum=0.5").notes == ("--momentum has no part in SGD",)


def test_the_rate_of_sgd_grows_with_the_ranks() -> None:
    found = translated("--optimizer=SGDMomentum --parallel=data")
    assert found.settings["scale_learning_rate"] == "linear"
    (note,) = found.notes
    assert "rate of SGD grows with the ranks" in note
    assert "scale_learning_rate" not in settings("--optimizer=SGDMomentum")
    assert "scale_learning_rate" not in settings("--optimizer=Adam --parallel=data")
    later = "--parallel=data --lr_schedulers="
    assert settings(later)["scale_learning_rate"] == "linear"
    assert "scale_learning_rate" not in settings(f"{later} --learning_rate_scaling=False")


@pytest.mark.parametrize(
    ("line", "loss", "metrics"),
    [
        ("--metrics=categorical_accuracy,categorical_mse", "cross-entropy", ("mse",)),
        ("--metrics=categorical_mse", "cross-entropy", ("mse",)),
        ("--metrics=precision,multiclass_confusion_matrix", "cross-entropy", None),
        ("--metrics=categorical_mae --loss_func=categorical_hinge", "hinge", ("mae",)),
    ],
)
def test_a_metric_is_never_the_loss(line: str, loss: str, metrics: tuple[str, ...] | None) -> None:
    found = settings(line)
    assert found["loss"] == loss
    assert found["metrics"] == (metrics or ("precision", "confusion"))


def test_evaluating_alone_trains_nothing() -> None:
    found = settings("--evaluate_only --num_epochs=9 --weights_and_bias_filename=m.safetensors")
    assert (found["epochs"], found["weights"]) == (0, Path("m.safetensors"))
    assert "evaluate_first" not in found


def test_images_are_flipped_as_there() -> None:
    assert settings("--flip_images --flip_images_prob=0.5")["flip"] is True
    assert "flip_probability" not in settings("--flip_images --flip_images_prob=0.5")
    assert settings("--flip_images --flip_images_prob=0.2")["flip_probability"] == 0.2
    assert settings("--augment_flip")["flip"] is True
    cropped = settings("--crop_images --crop_images_prob=0.3")
    assert (cropped["crop_window"], cropped["crop_probability"]) == (16, 0.3)
    found = translated("--flip_images_prob=0.3 --crop_images=False --crop_images_size=8")
    assert not {"flip", "crop_window"} & {*found.settings}
    assert found.notes == (
        "of changes to images that are not asked for: --flip_images_prob, --crop_images_size",
    )


@pytest.mark.parametrize(
    ("line", "goal"),
    [
        ("--stop_at_loss_threshold=98", "accuracy=0.98"),
        ("--stop_at_loss_threshold=0.9 --stop_at_loss_metric=val_accuracy", "accuracy=0.9"),
        (
            "--stop_at_loss_threshold=0.2 --stop_at_loss_metric=val_categorical_cross_entropy",
            "loss=0.2",
        ),
    ],
)
def test_stopping_at_a_value(line: str, goal: str) -> None:
    found = translated(f"--lr_schedulers=stop_at_loss,model_checkpoint {line}")
    assert found.notes == ()
    assert (found.settings["stop_at"], found.settings["keep_best"]) == (goal, True)
    assert Settings(stop_at=goal).goal is not None


def test_schedules() -> None:
    found = translated(
        "--lr_schedulers=warm_up,early_stopping,reduce_lr_on_plateau --warm_up_epochs=3 "
        "--early_stopping_patience=8 --reduce_lr_on_plateau_factor=0.5 "
        "--reduce_lr_on_plateau_min_lr=0 --model_checkpoint_save_freq=2 "
        "--early_stopping_metric=val_categorical_cross_entropy"
    )
    assert (found.settings["warm_up"], found.settings["patience"]) == (3.0, 8)
    assert (found.settings["schedule"], found.settings["schedule_epochs"]) == ("plateau", 5)
    assert found.settings["schedule_factor"] == 0.5
    assert "schedule_min_rate" not in found.settings
    assert found.notes == (
        "of schedulers that --lr_schedulers does not name: --model_checkpoint_save_freq",
    )


@pytest.mark.parametrize(
    ("line", "watched"),
    [
        ("--early_stopping_metric=val_categorical_cross_entropy", "loss"),
        ("--early_stopping_metric=categorical_cross_entropy", "training-loss"),
        ("--early_stopping_metric=val_categorical_accuracy", "accuracy"),
        ("--early_stopping_metric=categorical_accuracy", "training-accuracy"),
        ("--early_stopping_metric=val_categorical_mse --metrics=categorical_mse", "mse"),
        ("--validation_split=0 --early_stopping_metric=categorical_accuracy", "accuracy"),
    ],
)
def test_what_schedulers_go_by(line: str, watched: str) -> None:
    found = translated(f"--lr_schedulers=early_stopping {line}")
    assert found.notes == ()
    assert found.settings.get("watch", "loss") == watched
    Settings(**found.settings)


def test_rates_with_a_lower_bound() -> None:
    assert settings("--reduce_lr_on_plateau_min_lr=1e-5")["schedule_min_rate"] == 1e-5
    steps = settings(
        "--lr_schedulers=reduce_lr_every_nepochs --reduce_lr_every_nepochs_min_lr=1e-5"
    )
    assert (steps["schedule"], steps["schedule_min_rate"]) == ("step", 1e-5)


def test_a_warm_up_in_batches() -> None:
    found = settings("--lr_schedulers=warm_up --warm_up_batches=30")
    assert found["warm_up_steps"] == 30
    assert "warm_up" not in found


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("--lr_schedulers=stop_at_loss", "needs --stop_at_loss_threshold"),
        ("--lr_schedulers=warmup", "did you mean 'warm_up'?"),
        ("--early_stopping_metric=val_categorical_mse", "is not measured: name it in --metrics"),
        (
            "--early_stopping_metric=val_categorical_accuracy",
            "by accuracy, reduce_lr_on_plateau by loss, model_checkpoint by loss: here",
        ),
    ],
)
def test_what_a_scheduler_does_not_do_here(line: str, cause: str) -> None:
    with pytest.raises(UsageError) as error:
        translate(line.split())
    assert cause in str(error.value)
