"""PyDTNN's names for models, data sets, optimizers and losses, and ours for them. Without torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phalanx import data, models
from phalanx.wording import unknown

#: Models that are spelt otherwise here.
_MODELS: Mapping[str, dict[str, Any]] = {
    "simplecnn": {"model": "pydtnn-simplecnn"},
    **{
        name: {"model": f"pydtnn-{name}"}
        for name in ("vgg1", "vgg2", "vgg3", "vgg3do", "vgg3do2", "vgg3dobn")
    },
    "densenet": {"model": "densenet121-k12"},
    "simplemlp": {"model": "mlp", "hidden": (512, 512, 512)},
    "vgg11bn": {"model": "vgg11-bn"},
    "vgg16bn": {"model": "vgg16-bn"},
    "inceptionv3": {"model": "inception-v3"},
    "mobilenetv1": {"model": "mobilenet-v1"},
    "resnet50v15": {"model": "resnet50"},
}
#: What PyDTNN's names of models end with: here the samples say which stem a model gets.
_ENDINGS = ("_mnist", "_cifar10", "_imagenet")
_LATER_SIMPLECNN = {"model": "pydtnn-simplecnn-dropout"}

_DATASETS = {"mnist": "mnist", "cifar10": "cifar10", "imagenet": "images"}

_OPTIMIZERS = {
    "sgd": "sgd",
    "sgdmomentum": "sgd",
    "adam": "pydtnn-adam",
    "nadam": "pydtnn-nadam",
    "rmsprop": "pydtnn-rmsprop",
}
#: What PyDTNN makes up in place of a data set: samples of this shape, of so many classes.
SYNTHETIC: Mapping[str, dict[str, Any]] = {
    "mnist": {"shape": "1x28x28", "classes": 10, "samples": 60_000},
    "cifar10": {"shape": "3x32x32", "classes": 10, "samples": 50_000},
    "images": {"shape": "3x227x227", "classes": 1_000, "samples": 50_000},
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
_ACCURACY = ("categorical_accuracy", "accuracy")
#: What can be measured, but is no loss.
_METRICS = {
    "precision": "precision",
    "recall": "recall",
    "multiclass_confusion_matrix": "confusion",
}
_LOSS = "categorical_cross_entropy"


@dataclass(frozen=True)
class Measures:
    """What PyDTNN's lists of functions stand for."""

    #: PyDTNN's name for the loss.
    named: str
    loss: str
    metrics: tuple[str, ...]
    #: PyDTNN's names of what is not measured here.
    unmeasured: tuple[str, ...]
    #: PyDTNN's names of what it shows, in its order, and ours.
    shown: Mapping[str, str]


def model_settings(name: str, *, later: bool) -> dict[str, Any]:
    """The settings for a model, as a `later` version of PyDTNN has it or as the first."""
    base = name.lower()
    if later and base == "simplecnn":
        return dict(_LATER_SIMPLECNN)
    for ending in _ENDINGS:
        base = base.removesuffix(ending)
    if base in _MODELS:
        return dict(_MODELS[base])
    ours = [one for one in models.model_names() if one not in ("mlp", "logistic", "lenet5")]
    theirs = [one for one in ours if "-" not in one and one not in _MODELS]
    if base in theirs:
        return {"model": base}
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


def measures(functions: str, metrics: str, *, later: bool) -> Measures:
    """The last of the functions that can be a loss is the loss; all others are metrics.

    Later versions show the loss first, the first one the functions as they are listed.
    """
    listed, more = _split(functions), _split(metrics)
    for name in (*listed, *more):
        if name not in (*LOSSES, *_METRICS, *_ACCURACY):
            raise unknown("loss or metric", name, known=(*_ACCURACY, *LOSSES, *_METRICS))
    loss = next((name for name in reversed(listed) if name in LOSSES), _LOSS)
    others = [name for name in (*listed, *more) if name not in (*_ACCURACY, loss)]
    ours = {name: _METRICS.get(name) or LOSSES[name][1] for name in others}
    return Measures(
        named=loss,
        loss=LOSSES[loss][0],
        metrics=tuple(dict.fromkeys(one for one in ours.values() if one is not None)),
        unmeasured=tuple(name for name, one in ours.items() if one is None),
        shown=_shown([loss, *listed, *more] if later else [*listed, *more], loss, ours),
    )


def _shown(names: Sequence[str], loss: str, ours: Mapping[str, str | None]) -> Mapping[str, str]:
    found = {}
    for name in names:
        own = "loss" if name == loss else "accuracy" if name in _ACCURACY else ours.get(name)
        if own is not None and own not in ("precision", "recall", "confusion"):  # no one number
            found[name] = own
    return found


def _split(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]
