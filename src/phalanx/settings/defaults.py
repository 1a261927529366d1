"""What a training takes that a user has not said: by its model and its data, as their entries have
it. The same on any number of ranks; nothing here imports torch."""

from collections.abc import Collection
from typing import Any

from phalanx import data, models
from phalanx.data import DatasetEntry
from phalanx.models import ModelEntry
from phalanx.settings.optimizers import OPTIMIZERS
from phalanx.settings.table import Settings

#: The optimizer that nobody has to ask for, and what its learning rate is also that of.
_ADAM = "adam"
_ALIKE = (_ADAM, "adamw")
#: What is taken where nobody has tried: for a model or a data set of a user's own.
_MODEL = ModelEntry(name="your own model", module="", summary="")
_DATASET = DatasetEntry(name="your own data", module="", summary="", input_shape=(), classes="any")


def completed(settings: Settings, said: Collection[str]) -> Settings:
    """Settings with the defaults of their model and data set for what was not `said`."""
    if "optimizer" not in said:
        settings = settings.changed(optimizer=_optimizer(settings))
    values = defaults_of(settings.model, settings.dataset)
    if settings.optimizer not in _ALIKE:
        values["learning_rate"] = None  # its own
    if "batch_size_per_rank" in said:
        del values["batch_size"]
    return settings.changed(**{name: one for name, one in values.items() if name not in said})


def defaults_of(model: str, dataset: str) -> dict[str, Any]:
    """How Adam trains this model on this data, by the names of settings."""
    network, samples = model_entry(model), dataset_entry(dataset)
    return {
        "epochs": samples.deep_epochs if network.deep else samples.epochs,
        "batch_size": samples.batch_size,
        "learning_rate": network.learning_rate,
        "normalise": samples.normalise,
    }


def usual_reasons(settings: Settings) -> dict[str, str]:
    """Of settings that are as they would be if nobody had said anything: by what they are so."""
    network, samples = model_entry(settings.model), dataset_entry(settings.dataset)
    usual = completed(settings, ("optimizer",))
    of_data = f"default for {samples.name}"
    by = {
        "epochs": f"{of_data}{' and deep networks' if network.deep else ''}",
        "batch_size": of_data,
        "learning_rate": f"default for {network.name}",
        "normalise": of_data,
    }
    return {name: why for name, why in by.items() if _same(settings, usual, name)}


def _same(settings: Settings, usual: Settings, name: str) -> bool:
    if name == "batch_size" and settings.batch_size_per_rank is not None:
        return False
    value = getattr(settings, name)
    return value is not None and value == getattr(usual, name)


def model_entry(name: str) -> ModelEntry:
    """What is known about a model; of a user's own, or an unknown one, what goes for any."""
    return next((one for one in models.describe() if one.name == name), _MODEL)


def dataset_entry(name: str) -> DatasetEntry:
    """What is known about a data set; of a user's own, or an unknown one, what goes for any."""
    return next((one for one in data.describe() if one.name == name), _DATASET)


def outright(settings: Settings) -> dict[str, Any]:
    """All that has such defaults as these settings have it, to be said in full."""
    batch = {} if settings.batch_size_per_rank is not None else {"batch_size": settings.batch(1)}
    return {
        "epochs": settings.epochs,
        **batch,
        "optimizer": settings.optimizer,
        "learning_rate": nominal_rate(settings),
        "normalise": settings.normalise,
    }


def nominal_rate(settings: Settings) -> float:
    """The learning rate that a user asked for, or the optimizer's own."""
    if settings.learning_rate is not None:
        return settings.learning_rate
    return OPTIMIZERS[settings.optimizer].learning_rate


def _optimizer(settings: Settings) -> str:
    """Adam, or SGD for who gives options that Adam does not have."""
    words = [word.partition("=")[0] for word in settings.optimizer_options.split()]
    names = {word.replace("-", "_") for word in words}
    if settings.momentum is not None:
        names.add("momentum")
    only_of_sgd = names - set(OPTIMIZERS[_ADAM].options)
    return "sgd" if only_of_sgd and names <= set(OPTIMIZERS["sgd"].options) else _ADAM
