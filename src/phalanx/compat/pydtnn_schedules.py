"""PyDTNN's schedulers as settings: what changes the learning rate, and what ends a training."""

from collections.abc import Mapping
from typing import Any

from phalanx.errors import UsageError
from phalanx.wording import unknown

#: What each scheduler has options for, after its own name.
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "warm_up": ("epochs", "batches"),
    "early_stopping": ("metric", "patience"),
    "reduce_lr_on_plateau": ("metric", "factor", "patience", "min_lr"),
    "reduce_lr_every_nepochs": ("factor", "nepochs", "min_lr"),
    "stop_at_loss": ("metric", "threshold"),
    "model_checkpoint": ("metric", "save_freq"),
}
#: Those that go by a metric that gets better or not.
_WATCHING = ("early_stopping", "reduce_lr_on_plateau", "model_checkpoint")
#: Before the name of a metric of the held-out samples.
_HELD_OUT = "val_"


def schedule(
    values: Mapping[str, Any], notes: list[str], *, loss: str, shown: Mapping[str, str]
) -> dict[str, Any]:
    """The settings of all schedulers that are named.

    `loss` is PyDTNN's name for the loss, `shown` are its names of what is measured, and ours.
    """
    names = [name for name in str(values.get("lr_schedulers", "")).split(",") if name.strip()]
    named = [name.strip() for name in names]
    settings: dict[str, Any] = {}
    for name in named:
        if name not in _OPTIONS:
            raise unknown("scheduler of PyDTNN", name, known=_OPTIONS)
        settings |= _settings(name, values)
    settings |= _watched(named, values, notes, loss=loss, shown=shown)
    if idle := [
        f"--{name}_{option}"
        for name, options in _OPTIONS.items()
        for option in options
        if name not in named and f"{name}_{option}" in values
    ]:
        notes.append(f"of schedulers that --lr_schedulers does not name: {', '.join(idle)}")
    return settings


def weights_every(values: Mapping[str, Any]) -> int | None:
    """After how many epochs PyDTNN writes its best weights, if it is to."""
    named = [name.strip() for name in str(values.get("lr_schedulers", "")).split(",")]
    if "model_checkpoint" not in named:
        return None
    every = int(values.get("model_checkpoint_save_freq", 2))
    if every < 1:
        raise UsageError(f"--model_checkpoint_save_freq={every}: takes 1 or more epochs")
    return every


def _settings(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    match name:
        case "warm_up":
            if "warm_up_batches" in values:
                return {"warm_up_steps": values["warm_up_batches"]}
            return {"warm_up": float(values.get("warm_up_epochs", 5))}
        case "stop_at_loss":
            return {"stop_at": _goal(values)}
        case "model_checkpoint":
            return {"keep_best": True}
        case "early_stopping":
            return {"patience": values.get("early_stopping_patience", 10)}
    on_plateau = name == "reduce_lr_on_plateau"
    settings = {
        "schedule": "plateau" if on_plateau else "step",
        "schedule_epochs": values.get(f"{name}_{'patience' if on_plateau else 'nepochs'}", 5),
        "schedule_factor": values.get(f"{name}_factor", 0.1),
    }
    least = values.get(f"{name}_min_lr")
    return settings | ({"schedule_min_rate": least} if least else {})


def _watched(
    named: list[str],
    values: Mapping[str, Any],
    notes: list[str],
    *,
    loss: str,
    shown: Mapping[str, str],
) -> dict[str, Any]:
    """What the schedulers go by: here all by the same, as they do unless told otherwise."""
    held_out = bool(values["test_as_validation"] or values["validation_split"])
    found: dict[str, str] = {}
    for name in _WATCHING:
        if name in named:
            option = f"{name}_metric"
            metric = str(values.get(option, f"{_HELD_OUT}{loss}"))
            plain = metric.removeprefix(_HELD_OUT)
            ours = "loss" if plain == loss else shown.get(plain)
            if ours is None:
                raise UsageError(f"--{option}={metric} is not measured: name it in --metrics, too")
            if option in values and plain != metric and not held_out:
                notes.append(f"--{option}={metric}: nothing is held out, the training is watched")
            found[name] = f"training-{ours}" if plain == metric and held_out else ours
    if len(set(found.values())) > 1:
        told = ", ".join(f"{name} by {metric}" for name, metric in found.items())
        raise UsageError(
            f"{told}: here all schedulers go by one metric: give the same --…_metric for each"
        )
    watched = next(iter(found.values()), "loss")
    return {} if watched == "loss" else {"watch": watched}


def _goal(values: Mapping[str, Any]) -> str:
    """What to stop at: a validation accuracy, which PyDTNN has in per cent, or a loss."""
    value = values.get("stop_at_loss_threshold")
    if not value:
        raise UsageError("--lr_schedulers=stop_at_loss needs --stop_at_loss_threshold")
    if "accuracy" in str(values.get("stop_at_loss_metric", "val_accuracy")):
        return f"accuracy={value / 100 if value > 1 else value:g}"
    return f"loss={value:g}"
