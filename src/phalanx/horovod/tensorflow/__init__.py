"""`import phalanx.horovod.tensorflow as hvd`: what phalanx.keras has, which works on tensors and
variables of TensorFlow when that is the backend of Keras."""

from importlib import import_module
from typing import Any

_KERAS = import_module("phalanx.keras")


def __getattr__(name: str) -> Any:
    try:
        return getattr(_KERAS, name)
    except AttributeError:
        raise AttributeError(
            f"phalanx.horovod.tensorflow has no '{name}'; it has what phalanx.keras has"
        ) from None
