"""PyDTNN's command line as settings: what each of its options means here.

What PyDTNN takes when an option is absent is taken here, too, as the version has it that the
command line is of. Its batch size is that of each rank. Nothing here imports torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.compat import pydtnn_names as names
from phalanx.compat.pydtnn_options import Value, parse
from phalanx.compat.pydtnn_schedules import schedule
from phalanx.compat.pydtnn_versions import is_later, parameters
from phalanx.errors import UsageError

#: PyDTNN's options by name: all of them with their values, or those that a user gave.
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Translation:
    """Settings, and what a user should know about them."""

    settings: dict[str, Any]
    notes: tuple[str, ...]
    #: Every option of PyDTNN's version with its value, in its order.
    parameters: Mapping[str, Value]
    #: PyDTNN's names of what it shows of an epoch, in its order, and ours.
    shown: Mapping[str, str]
    #: Whether the version is a later one than that of PyDTNN's first README.
    later: bool


def translate(words: Sequence[str]) -> Translation:
    """What PyDTNN's options stand for; a UsageError for what there is no equivalent of."""
    given, ignored = parse(words)
    later = is_later([*given, *ignored])
    if given.get("blocking_mpi") and given.get("non_blocking_mpi"):
        raise UsageError("--blocking_mpi and --non_blocking_mpi contradict each other: give one")
    values = parameters(given, later=later)
    measured = names.measures(str(values["loss_func"]), str(values.get("metrics", "")), later=later)
    notes: list[str] = []
    if ignored:
        notes.append(f"without a meaning here: {', '.join('--' + name for name in ignored)}")
    settings = (
        names.model_settings(str(values["model"]), later=later)
        | _data(values, given, notes)
        | _training(values)
        | _optimizer(values, given, notes, later=later)
        | _loss(measured, notes)
        | schedule(values, notes, loss=measured.named, shown=measured.shown)
        | _parallelism(values, given, notes)
    )
    return Translation(settings, tuple(notes), values, measured.shown, later)


def _data(values: Values, given: Values, notes: list[str]) -> dict[str, Any]:
    name = names.dataset_name(values["dataset"])
    settings: dict[str, Any] = {"normalise": bool(values.get("normalize"))}
    if values.get("use_synthetic_data"):
        if name not in names.SYNTHETIC:
            raise UsageError(f"--use_synthetic_data: PyDTNN makes up no samples of {name}")
        settings |= {"dataset": "synthetic", **names.SYNTHETIC[name]}
    else:
        settings |= {"dataset": name, **_folders(given, name)}
    settings |= _changes_to_images(values, given, notes)
    if values["test_as_validation"]:
        # PyDTNN then leaves the training samples whole, whatever the split.
        settings["test_as_validation"] = True
    else:
        settings["validation_split"] = values["validation_split"]
    return settings


def _changes_to_images(values: Values, given: Values, notes: list[str]) -> dict[str, Any]:
    """Images that are mirrored, and cut to windows, at random."""
    settings: dict[str, Any] = {}
    flips = bool(values.get("flip_images") or values.get("augment_flip"))
    asked = {"flip_images": flips, "crop_images": bool(values.get("crop_images"))}
    if asked["flip_images"]:
        settings["flip"] = True
        if (probability := values.get("flip_images_prob", 0.5)) != 0.5:
            settings["flip_probability"] = probability
    if asked["crop_images"]:
        settings["crop_window"] = values.get("crop_images_size", 16)
        if (probability := values.get("crop_images_prob", 0.5)) != 0.5:
            settings["crop_probability"] = probability
    idle = [
        f"--{option}"
        for option in given
        for name, wanted in asked.items()
        if not wanted and option in (f"{name}_size", f"{name}_prob")
    ]
    if idle:
        notes.append(f"of changes to images that are not asked for: {', '.join(idle)}")
    return settings


def _folders(given: Values, name: str) -> dict[str, Any]:
    paths = [
        Path(given[key]) for key in ("dataset_train_path", "dataset_test_path") if key in given
    ]
    if len(dict.fromkeys(paths)) < 2:
        return {"data_dir": paths[0]} if paths else {}
    if name != "images":
        return {"data_dir": paths[0], "test_dir": paths[1]}
    if paths[0].parent == paths[1].parent:
        return {"data_dir": paths[0].parent}  # its train/ and its test/ or validation/
    raise UsageError(
        f"--dataset_train_path={paths[0]} and --dataset_test_path={paths[1]}: images are read from "
        "one folder, with train and test in it: put links to both into one, and give that"
    )


def _training(values: Values) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "epochs": 0 if values.get("evaluate_only") else values["num_epochs"],
        "dtype": values["dtype"],
    }
    if "global_batch_size" in values:
        settings["batch_size"] = values["global_batch_size"]
    else:
        settings["batch_size_per_rank"] = values["batch_size"]
    if values["steps_per_epoch"]:  # 0 stands for all
        settings["steps_per_epoch"] = values["steps_per_epoch"]
    if values["evaluate"] and not values.get("evaluate_only"):
        settings["evaluate_first"] = True
    if "weights_and_bias_filename" in values:
        settings["weights"] = Path(values["weights_and_bias_filename"])
    if values.get("random_seed"):
        settings["seed"] = values["random_seed"]
    return settings


#: What each optimizer here makes use of.
_USED: Mapping[str, tuple[str, ...]] = {
    "sgd": ("momentum", "nesterov"),
    "pydtnn-rmsprop": ("epsilon", "decay_rate", "rho"),
    "pydtnn-adam": ("epsilon", "beta1", "beta2"),
    "pydtnn-nadam": ("epsilon", "beta1", "beta2"),
}


def _optimizer(values: Values, given: Values, notes: list[str], *, later: bool) -> dict[str, Any]:
    named = values["optimizer"]
    name = names.optimizer_name(named)
    decays = bool(values.get("decay"))
    settings: dict[str, Any] = {
        "optimizer": "pydtnn-sgd" if decays and name == "sgd" else name,
        "learning_rate": values["learning_rate"],
    }
    options: list[str] = []
    used = _USED[name]
    if name == "sgd":
        plain = named.lower() == "sgd" and not later  # SGDMomentum is another one there
        used = () if plain else used
        settings["momentum"] = 0.0 if plain else values["momentum"]
        options += ["nesterov=true"] if values.get("nesterov") else []
        if values["parallel"] == "data" and values.get("learning_rate_scaling", True):
            settings["scale_learning_rate"] = "linear"
            notes.append("PyDTNN's rate of SGD grows with the ranks, and so does this one")
    else:
        options += [f"epsilon={values['epsilon']}"]
    options += [f"decay={values['decay']}"] if decays else []
    if name == "pydtnn-rmsprop":
        options.append(f"rho={values.get('rho', values.get('decay_rate'))}")
    if name in ("pydtnn-adam", "pydtnn-nadam"):
        options.append(f"betas={values.get('beta1', 0.99)},{values.get('beta2', 0.999)}")
    notes += [
        f"--{key} has no part in {named}"
        for key in dict.fromkeys(key for keys in _USED.values() for key in keys)
        if key in given and key not in used
    ]
    return settings | ({"optimizer_options": " ".join(options)} if options else {})


def _loss(measured: names.Measures, notes: list[str]) -> dict[str, Any]:
    loss = measured.loss
    if measured.unmeasured:
        notes.append(f"not measured, because the loss is {loss}: {', '.join(measured.unmeasured)}")
    if loss in ("squared-error", "absolute-error"):
        notes.append(f"{loss} compares the outputs as they are: PyDTNN's models end in a softmax")
    return {"loss": loss} | ({"metrics": measured.metrics} if measured.metrics else {})


def _parallelism(values: Values, given: Values, notes: list[str]) -> dict[str, Any]:
    parallel = values["parallel"]
    if parallel not in ("sequential", "data"):
        raise UsageError(f"--parallel is sequential or data, not '{parallel}'")
    settings: dict[str, Any] = {"strategy": "single" if parallel == "sequential" else "allreduce"}
    if parallel == "data" and not values["blocking_mpi"]:
        settings["overlap"] = True
    if values["profile"]:
        settings["profile"] = True
    if values["tracing"]:
        settings["trace"] = Path("trace.json")
        notes.append("--tracing: trace.json is for ui.perfetto.dev, not for Extrae's tools")
    if "enable_gpu" in given:
        settings["device"] = "cuda" if given["enable_gpu"] else "cpu"
    return settings
