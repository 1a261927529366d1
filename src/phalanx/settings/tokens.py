"""Trainings on tokens, such as the characters of a text: what they are told, and what they refuse.

Nothing here imports torch.
"""

from collections.abc import Mapping
from typing import Any

from phalanx import data, models
from phalanx.data.options import CONTEXT_LENGTH, STEPS
from phalanx.errors import UsageError
from phalanx.options import names_of
from phalanx.settings.metrics import OF_LOSS
from phalanx.settings.table import Settings
from phalanx.wording import flag

_LOSS = "cross-entropy"
_DATASETS = {entry.name for entry in data.describe() if entry.has_tokens}
_MODELS = {entry.name for entry in models.describe() if entry.reads_tokens}
#: The model of a training on tokens, unless a user says otherwise.
_MODEL = "transformer"


def has_tokens(settings: Settings) -> bool:
    """Whether samples are tokens, each with one that follows it."""
    return settings.dataset in _DATASETS


def answers_tokens(settings: Settings) -> bool:
    """Whether a model answers for each token of a sample, also one of a user's own data set."""
    return has_tokens(settings) or settings.model in _MODELS


def with_model(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that were given, and the model that suits tokens, if there are any."""
    has_default = values.get("dataset") in _DATASETS
    return ({"model": _MODEL} if has_default else {}) | dict(values)


def measured(settings: Settings) -> tuple[str, ...]:
    """The metrics that are asked for; of tokens also what their loss is in other words."""
    more = OF_LOSS if has_tokens(settings) and settings.objective is None else ()
    return tuple(dict.fromkeys((*settings.metrics, *more)))


def check_tokens(settings: Settings) -> None:
    """Raise a UsageError for what does not go with tokens, and for tokens where there are none."""
    wanted = [name for name in OF_LOSS if name in settings.metrics]
    usual = (settings.loss or _LOSS, settings.reduction) == (_LOSS, "mean")
    if wanted and not (usual and settings.objective is None):
        raise UsageError(
            f"--metrics {wanted[0]} says in other words what a mean cross-entropy is: leave out "
            "--loss, --reduction and --objective"
        )
    if has_tokens(settings):
        _check_training(settings)
    elif settings.model in _MODELS and ":" not in settings.dataset:
        raise UsageError(
            f"--model {settings.model} reads tokens, and the samples of {settings.dataset} are "
            "numbers: take --dataset text, or another model"
        )


def _check_training(settings: Settings) -> None:
    name = settings.dataset
    if settings.model not in _MODELS and ":" not in settings.model:
        raise UsageError(
            f"--model {settings.model} reads numbers, and the samples of {name} are tokens: take "
            f"--model {' or '.join(sorted(_MODELS))}"
        )
    if (settings.loss or _LOSS, settings.reduction) != (_LOSS, "mean"):
        raise UsageError(
            f"data set {name} is trained with the mean cross-entropy over all tokens: leave out "
            "--loss and --reduction"
        )
    for step in names_of(STEPS):
        if getattr(settings, step):
            raise UsageError(
                f"{flag(step)} is for numbers, and the samples of {name} are tokens: leave it out"
            )
    length = settings.context_length or CONTEXT_LENGTH.default
    if settings.validation_split and (settings.window_step or length) < length:
        raise UsageError(
            f"--validation-split: with --window-step {settings.window_step} a sample of {length} "
            "tokens has some in common with the next, and those held out would be trained on: "
            "leave out one of the two"
        )
