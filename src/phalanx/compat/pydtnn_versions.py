"""What PyDTNN takes for an option that is absent, in its first version and in later ones.

The first is the program of its README: 22 options, in the order in which it lists them. A command
line with any other option is one of a later version, whose defaults differ.
"""

from collections.abc import Collection, Mapping

from phalanx.compat.pydtnn_options import Value

#: Where the files of a data set are if nobody says it: there is no ../datasets here.
_DATA = "$PHALANX_DATA"

FIRST: Mapping[str, Value] = {
    "model": "simplecnn",
    "dataset": "mnist",
    "dataset_train_path": _DATA,
    "dataset_test_path": _DATA,
    "test_as_validation": False,
    "batch_size": 64,
    "validation_split": 0.0,
    "steps_per_epoch": 0,
    "num_epochs": 1,
    "evaluate": False,
    "optimizer": "SGDMomentum",
    "learning_rate": 0.01,
    "decay_rate": 0.99,
    "epsilon": 1e-8,
    "momentum": 0.9,
    "loss_func": "accuracy,categorical_cross_entropy",
    "parallel": "sequential",
    "blocking_mpi": True,
    "tracing": False,
    "profile": False,
    "enable_gpu": False,
    "dtype": "float32",
}

LATER: Mapping[str, Value] = {
    **{name: value for name, value in FIRST.items() if name != "decay_rate"},
    "validation_split": 0.2,
    "optimizer": "sgd",
    "epsilon": 1e-7,
    "rho": 0.9,
    "beta1": 0.99,
    "beta2": 0.999,
    "decay": 0.0,
    "nesterov": False,
    "loss_func": "categorical_cross_entropy",
    "metrics": "categorical_accuracy",
    "lr_schedulers": "early_stopping,reduce_lr_on_plateau,model_checkpoint",
    "random_seed": 0,
}


def is_later(names: Collection[str]) -> bool:
    """Whether options of these names are those of a later version."""
    return not set(names) <= {*FIRST, "non_blocking_mpi"}


def parameters(given: Mapping[str, Value], *, later: bool) -> dict[str, Value]:
    """Every option of the version with its value, and whatever else was given."""
    values = dict(LATER if later else FIRST) | dict(given)
    if "non_blocking_mpi" in given:
        values["blocking_mpi"] = not values.pop("non_blocking_mpi")
    if "rho" in values and "decay_rate" in given:
        del values["rho"]
    return values
