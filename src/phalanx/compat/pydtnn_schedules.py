"""PyDTNN's schedulers as settings: what changes the learning rate, and what ends a training."""

from collections.abc import Mapping
from typing import Any

from phalanx.errors import UsageError
from phalanx.wording import unknown

#: What each scheduler has options for, after its own name.
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "warm_up": ("epochs",),
    "early_stopping": ("metric", "patience"),
    "reduce_lr_on_plateau": ("metric", "factor", "patience", "min_lr"),
    "reduce_lr_every_nepochs": ("factor", "nepochs", "min_lr"),
    "stop_at_loss": ("metric", "threshold"),
    "model_checkpoint": ("metric", "save_freq"),
}


def schedule(values: Mapping[str, Any], notes: list[str], *, loss: str) -> dict[str, Any]:
    """The settings of all schedulers that are named; `loss` is PyDTNN's name for the loss."""
    names = [name for name in str(values.get("lr_schedulers", "")).split(",") if name.strip()]
    named = [name.strip() for name in names]
    settings: dict[str, Any] = {}
    for name in named:
        if name not in _OPTIONS:
            raise unknown("scheduler of PyDTNN", name, known=_OPTIONS)
        _check(name, values, notes, loss=loss)
        settings |= _settings(name, values)
    if idle := [
        f"--{name}_{option}"
        for name, options in _OPTIONS.items()
        for option in options
        if name not in named and f"{name}_{option}" in values
    ]:
        notes.append(f"of schedulers that --lr_schedulers does not name: {', '.join(idle)}")
    return settings


def _settings(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    match name:
        case "warm_up":
            return {"warm_up": float(values.get("warm_up_epochs", 5))}
        case "stop_at_loss":
            return {"stop_at": _goal(values)}
        case "model_checkpoint":
            return {"keep_best": True}
        case "early_stopping":
            return {"patience": values.get("early_stopping_patience", 10)}
    on_plateau = name == "reduce_lr_on_plateau"
    return {
        "schedule": "plateau" if on_plateau else "step",
        "schedule_epochs": values.get(f"{name}_{'patience' if on_plateau else 'nepochs'}", 5),
        "schedule_factor": values.get(f"{name}_factor", 0.1),
    }


def _check(name: str, values: Mapping[str, Any], notes: list[str], *, loss: str) -> None:
    """Refuse what a scheduler is asked for and does not do here."""
    if values.get(f"{name}_min_lr"):
        raise UsageError(
            f"--{name}_min_lr={values[f'{name}_min_lr']:g}: a schedule has no lower bound here: "
            "leave it out, or end the training before with --num_epochs or early_stopping"
        )
    if name == "stop_at_loss" or f"{name}_metric" not in values:
        return
    metric = str(values[f"{name}_metric"])
    held_out = bool(values["test_as_validation"] or values["validation_split"])
    if metric.removeprefix("val_") != loss or (held_out and not metric.startswith("val_")):
        watched = f"val_{loss}" if held_out else loss
        raise UsageError(
            f"--{name}_metric={metric}: what is watched here is the loss, {watched}: leave it out"
        )
    if not held_out and metric.startswith("val_"):
        notes.append(f"--{name}_metric={metric}: nothing is held out, the training loss is watched")


def _goal(values: Mapping[str, Any]) -> str:
    """What to stop at: a validation accuracy, which PyDTNN has in per cent, or a loss."""
    value = values.get("stop_at_loss_threshold")
    if not value:
        raise UsageError("--lr_schedulers=stop_at_loss needs --stop_at_loss_threshold")
    if "accuracy" in str(values.get("stop_at_loss_metric", "val_accuracy")):
        return f"accuracy={value / 100 if value > 1 else value:g}"
    return f"loss={value:g}"
