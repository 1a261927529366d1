"""Keras itself, or an error that says how to get it. Everything here that needs Keras comes by."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

#: The backends whose training steps can be interrupted for an exchange.
BACKENDS = ("torch", "jax", "tensorflow")


def _import_keras() -> Any:
    try:
        release = version("keras")
    except PackageNotFoundError:
        raise ImportError(
            "phalanx.keras needs Keras 3: pip install 'phalanx[keras]', and choose a backend with "
            "the environment variable KERAS_BACKEND (torch is installed already)"
        ) from None
    if int(release.partition(".")[0]) < 3:
        raise ImportError(
            f"phalanx.keras needs Keras 3, and {release} is installed: "
            "pip install --upgrade 'phalanx[keras]'"
        )
    try:
        import keras
    except ModuleNotFoundError as error:
        raise ImportError(
            f"Keras cannot start its backend ({error}): install it with "
            "pip install 'phalanx[keras-all]', or choose another one with the environment variable "
            "KERAS_BACKEND (torch is installed already)"
        ) from error
    if keras.backend.backend() not in BACKENDS:
        raise ImportError(
            f"phalanx.keras works with the Keras backends {', '.join(BACKENDS)}, not "
            f"{keras.backend.backend()}: set the environment variable KERAS_BACKEND to one of them"
        )
    return keras


keras = _import_keras()


def backend() -> str:
    """The backend that Keras computes with in this process."""
    return str(keras.backend.backend())
