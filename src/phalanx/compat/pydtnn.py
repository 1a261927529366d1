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


def translate(words: Sequence[str]) -> Translation:
    """What PyDTNN's options stand for; a UsageError for what there is no equivalent of."""
    given, ignored = parse(words)
    later = is_later([*given, *ignored])
    if given.get("blocking_mpi") and given.get("non_blocking_mpi"):
        raise UsageError("--blocking_mpi and --non_blocking_mpi contradict each other: give one")
    values = parameters(given, later=later)
    measured = names.measures(str(values["loss_func"]), str(values.get("metrics", "")))
    notes: list[str] = []
    if ignored:
        notes.append(f"without a meaning here: {', '.join('--' + name for name in ignored)}")
    settings = (
        names.model_settings(str(values["model"]), later=later)
        | _data(values, given, notes)
        | _training(values)
        | _optimizer(values, given, notes, later=later)
        | _loss(measured, notes)
        | schedule(values, notes, loss=measured.named)
        | _parallelism(values, given, notes)
    )
    return Translation(settings, tuple(notes), values)


def _data(values: Values, given: Values, notes: list[str]) -> dict[str, Any]:
    name = names.dataset_name(values["dataset"])
    settings: dict[str, Any] = {"dataset": name, "normalise": False}
    folder = _folder(given, name)
    if folder is not None:
        settings["data_dir"] = folder
    if values.get("flip_images"):
        if values.get("flip_images_prob", 0.5) != 0.5:
            raise UsageError(
                f"--flip_images_prob={values['flip_images_prob']:g}: half of the images are "
                "flipped here, each with probability 0.5: leave it out"
            )
        settings["flip"] = True
    unused = ("crop_images_size", "crop_images_prob")
    idle = unused if values.get("flip_images") else (*unused, "flip_images_prob")
    if found := [f"--{option}" for option in idle if option in given]:
        notes.append(f"of changes to images that are not asked for: {', '.join(found)}")
    if values["test_as_validation"]:
        # PyDTNN then leaves the training samples whole, whatever the split.
        settings["test_as_validation"] = True
    else:
        settings["validation_split"] = values["validation_split"]
    return settings


def _folder(given: Values, name: str) -> Path | None:
    paths = [
        Path(given[key]) for key in ("dataset_train_path", "dataset_test_path") if key in given
    ]
    folders = dict.fromkeys(paths)
    if name == "images" and len({path.parent for path in folders}) == 1 and len(folders) == 2:
        return paths[0].parent  # its train/ and its test/ or validation/
    if len(folders) > 1:
        raise UsageError(
            f"--dataset_train_path={paths[0]} and --dataset_test_path={paths[1]} are two folders, "
            f"and {name} is read from one: put links to all its files into one folder, and give "
            "that for both"
        )
    return next(iter(folders), None)


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
        settings["weights"] = _weights(Path(values["weights_and_bias_filename"]))
    if values.get("random_seed"):
        settings["seed"] = values["random_seed"]
    return settings


def _weights(path: Path) -> Path:
    if path.suffix.lower() == ".npz":
        raise UsageError(
            f"--weights_and_bias_filename={path}: PyDTNN's own files are pickled, and reading one "
            "can run any code: give a run's model.safetensors"
        )
    return path


#: What each optimizer here makes use of.
_USED: Mapping[str, tuple[str, ...]] = {
    "sgd": ("momentum", "nesterov"),
    "rmsprop": ("epsilon", "decay_rate", "rho"),
    "adam": ("epsilon", "beta1", "beta2"),
    "nadam": ("epsilon", "beta1", "beta2"),
}


def _optimizer(values: Values, given: Values, notes: list[str], *, later: bool) -> dict[str, Any]:
    named = values["optimizer"]
    name = names.optimizer_name(named)
    settings: dict[str, Any] = {"optimizer": name, "learning_rate": values["learning_rate"]}
    options: list[str] = []
    used = _USED[name]
    if name == "sgd":
        plain = named.lower() == "sgd" and not later  # SGDMomentum is another one there
        used = () if plain else used
        settings["momentum"] = 0.0 if plain else values["momentum"]
        options += ["nesterov=true"] if values.get("nesterov") else []
        if not later and values["parallel"] == "data":
            settings["scale_learning_rate"] = "linear"
            notes.append("PyDTNN adds up gradients over the ranks: so the rate grows with them")
    else:
        options += [f"eps={values['epsilon']}"]
    options += _decay(values, name, settings.get("momentum", 0.0))
    if name == "rmsprop":
        options.append(f"alpha={values.get('rho', values.get('decay_rate'))}")
    if name in ("adam", "nadam"):
        options.append(f"betas={values.get('beta1', 0.99)},{values.get('beta2', 0.999)}")
    notes += [
        f"--{key} has no part in {named}"
        for key in dict.fromkeys(key for keys in _USED.values() for key in keys)
        if key in given and key not in used
    ]
    return settings | ({"optimizer_options": " ".join(options)} if options else {})


def _decay(values: Values, optimizer: str, momentum: float) -> list[str]:
    """PyDTNN takes the decay off the weights themselves, not into the gradients."""
    if not values.get("decay"):
        return []
    if optimizer in ("adam", "nadam"):
        return [f"weight_decay={values['decay']}", "decoupled_weight_decay=true"]
    if optimizer == "sgd" and not momentum:  # where that makes no difference
        return [f"weight_decay={values['decay']}"]
    raise UsageError(
        f"--decay={values['decay']:g}: PyDTNN takes it off the weights, and torch's {optimizer} "
        "would put it into the gradients: leave it out, or take --optimizer=Adam"
        + (", or --momentum=0" if optimizer == "sgd" else "")
    )


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
