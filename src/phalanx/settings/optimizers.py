"""The optimizers by name, and what can be said about each. Nothing here imports torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from phalanx.errors import UsageError
from phalanx.wording import unknown

_RATES = {"lr_decay": float, "weight_decay": float, "eps": float}
_MOMENTS: Mapping[str, Any] = {"betas": tuple, "eps": float, "weight_decay": float}
_ADAM: Mapping[str, Any] = {**_MOMENTS, "amsgrad": bool}
_PYDTNN: Mapping[str, Any] = {"betas": tuple, "epsilon": float, "decay": float}


@dataclass(frozen=True)
class OptimizerEntry:
    """An optimizer that steps every element by itself."""

    #: Its class in torch.optim, or in `phalanx.train.pydtnn_optimizers`.
    kind: str
    learning_rate: float
    #: What may be set besides the learning rate, and how it is written: a number, true or false,
    #: or a pair of numbers.
    options: Mapping[str, Any]
    #: Whether torch has a fused form of it for CPUs.
    fused: bool = field(default=False, kw_only=True)
    #: Whether it is PyDTNN's, and not torch's.
    of_pydtnn: bool = field(default=False, kw_only=True)


OPTIMIZERS = {
    "sgd": OptimizerEntry(
        "SGD",
        0.05,
        {"momentum": float, "dampening": float, "weight_decay": float, "nesterov": bool},
        fused=True,
    ),
    "adam": OptimizerEntry("Adam", 0.001, {**_ADAM, "decoupled_weight_decay": bool}, fused=True),
    "adamw": OptimizerEntry("AdamW", 0.001, _ADAM, fused=True),
    "nadam": OptimizerEntry(
        "NAdam",
        0.002,
        {**_MOMENTS, "momentum_decay": float, "decoupled_weight_decay": bool},
    ),
    "radam": OptimizerEntry(
        "RAdam",
        0.001,
        {**_MOMENTS, "decoupled_weight_decay": bool},
    ),
    "rmsprop": OptimizerEntry(
        "RMSprop",
        0.01,
        {
            "alpha": float,
            "eps": float,
            "weight_decay": float,
            "momentum": float,
            "centered": bool,
        },
    ),
    "adagrad": OptimizerEntry(
        "Adagrad", 0.01, {**_RATES, "initial_accumulator_value": float}, fused=True
    ),
    "adadelta": OptimizerEntry(
        "Adadelta", 1.0, {"rho": float, "eps": float, "weight_decay": float}
    ),
    "adamax": OptimizerEntry("Adamax", 0.002, _MOMENTS),
    "asgd": OptimizerEntry(
        "ASGD", 0.01, {"lambd": float, "alpha": float, "t0": float, "weight_decay": float}
    ),
    "rprop": OptimizerEntry("Rprop", 0.01, {"etas": tuple, "step_sizes": tuple}),
    "pydtnn-sgd": OptimizerEntry(
        "PyDTNNSGD", 0.01, {"momentum": float, "nesterov": bool, "decay": float}, of_pydtnn=True
    ),
    "pydtnn-rmsprop": OptimizerEntry(
        "PyDTNNRMSProp", 0.01, {"rho": float, "epsilon": float, "decay": float}, of_pydtnn=True
    ),
    "pydtnn-adam": OptimizerEntry("PyDTNNAdam", 0.01, _PYDTNN, of_pydtnn=True),
    "pydtnn-nadam": OptimizerEntry("PyDTNNNadam", 0.01, _PYDTNN, of_pydtnn=True),
}


def parse_options(optimizer: str, text: str) -> dict[str, Any]:
    """Options of an optimizer, written as `eps=1e-6 betas=0.9,0.95 amsgrad=true`."""
    if optimizer not in OPTIMIZERS:
        raise unknown("optimizer", optimizer, known=OPTIMIZERS)
    known = OPTIMIZERS[optimizer].options
    found: dict[str, Any] = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        name = name.replace("-", "_")
        if name not in known:
            raise unknown(f"option of {optimizer}", name, known=known)
        try:
            if not equals:
                raise ValueError
            found[name] = _read(value, known[name])
        except ValueError:
            example = {float: "1e-6", bool: "true", tuple: "0.9,0.999"}[known[name]]
            raise UsageError(
                f"--optimizer-options: '{word}' is not of the form {name}={example}"
            ) from None
    return found


def _read(text: str, kind: Any) -> float | bool | tuple[float, float]:
    if kind is bool:
        return ("false", "true").index(text.lower()) == 1
    if kind is tuple:
        first, second = (float(part) for part in text.split(","))
        return first, second
    return float(text)
