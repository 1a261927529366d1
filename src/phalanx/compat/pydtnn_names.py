"""PyDTNN's names for models, data sets, optimizers and losses, and ours for them. Without torch."""

from collections.abc import Mapping
from typing import Any

from phalanx import data, models
from phalanx.wording import unknown

#: Models that are spelt otherwise here.
_MODELS: Mapping[str, dict[str, Any]] = {
    "simplemlp": {"model": "mlp", "hidden": (512, 512, 512)},
    "vgg11bn": {"model": "vgg11-bn"},
    "vgg16bn": {"model": "vgg16-bn"},
    "inceptionv3": {"model": "inception-v3"},
    "mobilenetv1": {"model": "mobilenet-v1"},
    "resnet50v15": {"model": "resnet50"},
}
#: What PyDTNN's names of models end with: here the samples say which stem a model gets.
_ENDINGS = ("_mnist", "_cifar10", "_imagenet")

_DATASETS = {"mnist": "mnist", "cifar10": "cifar10", "imagenet": "images"}

_OPTIMIZERS = {
    "sgd": "sgd",
    "sgdmomentum": "sgd",
    "adam": "adam",
    "nadam": "nadam",
    "rmsprop": "rmsprop",
}

#: For each of PyDTNN's functions our loss, and our metric if there is one.
LOSSES: Mapping[str, tuple[str, str | None]] = {
    "categorical_cross_entropy": ("cross-entropy", None),
    "binary_cross_entropy": ("binary-cross-entropy", None),
    "categorical_hinge": ("hinge", "hinge"),
    "categorical_mse": ("squared-error", "mse"),
    "categorical_mae": ("absolute-error", "mae"),
    "regression_mse": ("squared-error", "mse"),
    "regression_mae": ("absolute-error", "mae"),
}
#: Measured anyway, whatever the loss is.
ACCURACY = "categorical_accuracy"


def model_settings(name: str) -> dict[str, Any]:
    """The settings for a model."""
    base = name.lower()
    for ending in _ENDINGS:
        base = base.removesuffix(ending)
    if base in _MODELS:
        return dict(_MODELS[base])
    ours = [one for one in models.model_names() if one not in ("mlp", "logistic", "lenet5")]
    if base in ours:
        return {"model": base}
    theirs = [one for one in ours if "-" not in one]
    raise unknown("model", name, known=(*_MODELS, *theirs))


def dataset_name(name: str) -> str:
    """Our name for a data set."""
    if name.lower() in _DATASETS:
        return _DATASETS[name.lower()]
    if name in data.dataset_names():  # what PyDTNN has not, but its command line could name
        return name
    raise unknown("data set", name, known=_DATASETS)


def optimizer_name(name: str) -> str:
    """Our name for an optimizer."""
    if name.lower() in _OPTIMIZERS:
        return _OPTIMIZERS[name.lower()]
    raise unknown("optimizer", name, known=("SGD", "Adam", "Nadam", "RMSProp"))


def loss_and_metrics(listed: str) -> tuple[str, tuple[str, ...], list[str]]:
    """From a list with commas: our loss, our metrics, and those that are not measured.

    The last function that can be a loss is the loss; the others are metrics.
    """
    names = [name.strip() for name in listed.split(",") if name.strip()]
    for name in names:
        if name not in LOSSES and name != ACCURACY:
            raise unknown("loss or metric", name, known=(ACCURACY, *LOSSES))
    losses = [name for name in names if name in LOSSES] or ["categorical_cross_entropy"]
    metrics = [(name, LOSSES[name][1]) for name in losses[:-1]]
    return (
        LOSSES[losses[-1]][0],
        tuple(dict.fromkeys(ours for _, ours in metrics if ours is not None)),
        [name for name, ours in metrics if ours is None],
    )
