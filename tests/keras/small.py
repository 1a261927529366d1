"""A small model and its data, of which each of two ranks has one half."""

from collections.abc import Callable
from functools import cache
from typing import Any

import keras
import numpy as np

import phalanx.keras as hvd
from phalanx.errors import PhalanxError

Array = np.ndarray[Any, Any]
FEATURES, CLASSES, BATCH, BATCHES = 6, 3, 8, 4
#: Two ranks, so half of every batch each.
HALF = BATCH // 2


def samples() -> tuple[Array, Array]:
    random = np.random.default_rng(0)
    x = random.normal(size=(BATCH * BATCHES, FEATURES)).astype("float32")
    return x, random.integers(0, CLASSES, BATCH * BATCHES)


def own_half(values: Array) -> Array:
    """This rank's part of every batch."""
    batches = values.reshape(BATCHES, 2, HALF, *values.shape[1:])
    return batches[:, hvd.rank()].reshape(-1, *values.shape[1:])


def make_model(seed: int) -> Any:
    keras.utils.set_random_seed(seed)
    layers = [keras.Input((FEATURES,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(CLASSES)]
    return keras.Sequential(layers)


def compiled(model: Any, optimizer: Any, **options: Any) -> Any:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"], **options)
    return model


def fit(model: Any, *, whole: bool = False, epochs: int = 2, callbacks: Any = ()) -> Any:
    """Train on this rank's half of every batch, or alone on all of it."""
    x, y = samples()
    if not whole:
        x, y = own_half(x), own_half(y)
    size = BATCH if whole else HALF
    return model.fit(
        x, y, size, epochs, verbose=0, shuffle=False, callbacks=list(callbacks)
    ).history


@cache
def trained_alone(make: Callable[[], Any]) -> tuple[Any, Any]:
    """A model on the joined batches, with its history; to compile one takes most of the time."""
    model = compiled(make_model(seed=1), make())
    return model, fit(model, whole=True)


def distance(model: Any, other: Any) -> float:
    pairs = zip(model.get_weights(), other.get_weights(), strict=True)
    return max(float(np.abs(one - two).max()) for one, two in pairs)


def sgd(**options: Any) -> Any:
    return keras.optimizers.SGD(0.1, momentum=0.9, **options)


def message(act: Callable[[], Any]) -> str:
    """What is said where something is refused."""
    try:
        act()
    except PhalanxError as error:
        return str(error)
    return "nothing was refused"
