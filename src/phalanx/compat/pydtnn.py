"""PyDTNN's command line as settings: what each of its options means here.

What PyDTNN takes when an option is absent is taken here, too: SGD with momentum 0.9 and a learning
rate of 0.01 for one epoch. Its batch size is that of each rank. Nothing here imports torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.compat import pydtnn_names as names
from phalanx.compat.pydtnn_options import Value, parse
from phalanx.errors import UsageError

Given = Mapping[str, Any]


@dataclass(frozen=True)
class Translation:
    """Settings, and what a user should know about them."""

    settings: dict[str, Any]
    notes: tuple[str, ...]


def translate(words: Sequence[str]) -> Translation:
    """What PyDTNN's options stand for; a UsageError for what there is no equivalent of."""
    given, ignored = parse(words)
    notes: list[str] = []
    if ignored:
        notes.append(f"without a meaning here: {', '.join('--' + name for name in ignored)}")
    settings = (
        names.model_settings(str(given.get("model", "simplecnn")))
        | _data(given)
        | _training(given)
        | _optimizer(given, notes)
        | _loss(given, notes)
        | _schedule(given, notes)
        | _parallelism(given, notes)
    )
    return Translation(settings, tuple(notes))


def _data(given: Given) -> dict[str, Any]:
    name = names.dataset_name(given.get("dataset", "mnist"))
    settings: dict[str, Any] = {"dataset": name}
    folder = _folder(given, name)
    if folder is not None:
        settings["data_dir"] = folder
    if given.get("flip_images"):
        settings["flip"] = True
    if given.get("test_as_validation"):
        # PyDTNN then leaves the training samples whole, whatever the split.
        settings["test_as_validation"] = True
    else:
        settings["validation_split"] = given.get("validation_split", 0.2)
    return settings


def _folder(given: Given, name: str) -> Path | None:
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


def _training(given: Given) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "epochs": given.get("num_epochs", 1),
        "dtype": given.get("dtype", "float32"),
    }
    if "global_batch_size" in given:
        settings["batch_size"] = given["global_batch_size"]
    else:
        settings["batch_size_per_rank"] = given.get("batch_size", 64)
    if given.get("steps_per_epoch"):  # 0 stands for all
        settings["steps_per_epoch"] = given["steps_per_epoch"]
    if given.get("evaluate"):
        settings["evaluate_first"] = True
    return settings


def _optimizer(given: Given, notes: list[str]) -> dict[str, Any]:
    name = names.optimizer_name(given.get("optimizer", "SGD"))
    settings: dict[str, Any] = {
        "optimizer": name,
        "learning_rate": given.get("learning_rate", 0.01),
    }
    used = {"learning_rate", "optimizer"}
    options: list[str] = []
    if name == "sgd":
        used |= {"momentum", "nesterov"}
        settings["momentum"] = given.get("momentum", 0.9)
        options += ["nesterov=true"] if given.get("nesterov") else []
    else:
        used |= {"epsilon"}
        options += [f"eps={given.get('epsilon', 1e-7)}"]
    if given.get("learning_rate_scaling"):
        notes.append(
            "--learning_rate_scaling left out: gradients are averaged over the ranks here, and "
            "the rate stays what it is; Phalanx's own way is --scale-learning-rate"
        )
    if given.get("decay"):
        options.append(f"weight_decay={given['decay']}")
        if name in ("adam", "nadam"):  # PyDTNN takes it off the weights, not into the moments
            options.append("decoupled_weight_decay=true")
    if name == "rmsprop":
        used |= {"decay_rate", "rho"}
        options.append(f"alpha={given.get('rho', given.get('decay_rate', 0.9))}")
    if name in ("adam", "nadam"):
        used |= {"beta1", "beta2"}
        options.append(f"betas={given.get('beta1', 0.99)},{given.get('beta2', 0.999)}")
    notes += [
        f"--{key} has no part in {name}"
        for key in ("decay_rate", "rho", "beta1", "beta2", "epsilon", "momentum", "nesterov")
        if key in given and key not in used
    ]
    return settings | ({"optimizer_options": " ".join(options)} if options else {})


def _loss(given: Given, notes: list[str]) -> dict[str, Any]:
    # Metrics come first: the loss is the last that can be one.
    listed = f"{given.get('metrics', '')},{given.get('loss_func', '')}"
    loss, metrics, unmeasured = names.loss_and_metrics(listed)
    if unmeasured:
        notes.append(f"not measured, because the loss is {loss}: {', '.join(unmeasured)}")
    if loss in ("squared-error", "absolute-error"):
        notes.append(f"{loss} compares the outputs as they are: PyDTNN's models end in a softmax")
    return {"loss": loss} | ({"metrics": metrics} if metrics else {})


def _schedule(given: Given, notes: list[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name in str(given.get("lr_schedulers", "")).replace(" ", "").split(","):
        if name == "warm_up":
            settings["warm_up"] = float(given.get("warm_up_epochs", 5))
        elif name == "stop_at_loss":
            settings["stop_at"] = _goal(given)
        elif name == "model_checkpoint":
            settings["keep_best"] = True
        elif name == "early_stopping":
            settings["patience"] = given.get("early_stopping_patience", 10)
        elif name in ("reduce_lr_on_plateau", "reduce_lr_every_nepochs"):
            epochs = "patience" if name == "reduce_lr_on_plateau" else "nepochs"
            settings["schedule"] = "plateau" if name == "reduce_lr_on_plateau" else "step"
            settings["schedule_epochs"] = given.get(f"{name}_{epochs}", 5)
            settings["schedule_factor"] = given.get(f"{name}_factor", 0.1)
        elif name:
            notes.append(f"--lr_schedulers: {name} has no equivalent here")
    return settings


def _goal(given: Given) -> str:
    """What to stop at: a validation accuracy, which PyDTNN has in per cent, or a loss."""
    value = given.get("stop_at_loss_threshold")
    if not value:
        raise UsageError("--lr_schedulers=stop_at_loss needs --stop_at_loss_threshold")
    if "accuracy" in str(given.get("stop_at_loss_metric", "val_accuracy")):
        return f"accuracy={value / 100 if value > 1 else value:g}"
    return f"loss={value:g}"


def _parallelism(given: Given, notes: list[str]) -> dict[str, Any]:
    parallel = given.get("parallel", "sequential")
    if parallel not in ("sequential", "data"):
        raise UsageError(f"--parallel is sequential or data, not '{parallel}'")
    if given.get("blocking_mpi") and given.get("non_blocking_mpi"):
        raise UsageError("--blocking_mpi and --non_blocking_mpi contradict each other: give one")
    settings: dict[str, Any] = {"strategy": "single" if parallel == "sequential" else "allreduce"}
    blocking: Value = given.get("blocking_mpi", not given.get("non_blocking_mpi", False))
    if parallel == "data" and not blocking:
        settings["overlap"] = True
    if given.get("profile"):
        settings["profile"] = True
    if given.get("tracing"):
        settings["trace"] = Path("trace.json")
        notes.append("--tracing: trace.json is for ui.perfetto.dev, not for Extrae's tools")
    if "enable_gpu" in given:
        settings["device"] = "cuda" if given["enable_gpu"] else "cpu"
    return settings
