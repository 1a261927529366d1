"""A scenario of the job: Adasum, against its formula written out."""

from pathlib import Path
from typing import Any

import keras
import numpy as np

import phalanx.keras as hvd
from tests.keras.small import (
    BATCHES,
    HALF,
    Array,
    compiled,
    distance,
    fit,
    make_model,
    samples,
    sgd,
    trained_alone,
)


def adasum(_folder: Path) -> Any:
    model = compiled(make_model(seed=1), hvd.DistributedOptimizer(sgd(), op=hvd.Adasum))
    fit(model)
    averaged = trained_alone(sgd)[0]
    expected = make_model(seed=1)
    expected.set_weights(_trained(expected.get_weights(), epochs=2))
    small = compiled(
        make_model(seed=1), hvd.DistributedOptimizer(sgd(), op=hvd.Adasum, compression=Counting)
    )
    fit(small, epochs=1)
    sums = [float(weights.sum()) for weights in model.get_weights()]
    distances = {"averaged": distance(expected, averaged), "expected": distance(model, expected)}
    return {"sums": sums, "compressed": Counting.calls, **distances}


class Counting:
    """A compressor of one's own, which only counts."""

    calls = 0

    @staticmethod
    def compress(tensor: Any) -> Any:
        Counting.calls += 1
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        return tensor


def _trained(weights: list[Array], *, epochs: int) -> list[Array]:
    """Steps with momentum, along what both ranks' gradients come to."""
    momentums = [np.zeros_like(one) for one in weights]
    model = compiled(make_model(seed=1), keras.optimizers.SGD(1.0))
    for batch in [*range(BATCHES)] * epochs:
        first, second = (_gradients(model, weights, 2 * batch + rank) for rank in range(2))
        for weight, momentum, one, two in zip(weights, momentums, first, second, strict=True):
            momentum *= 0.9
            momentum -= 0.1 * _combined(one, two)
            weight += momentum
    return weights


def _gradients(model: Any, weights: list[Array], part: int) -> list[Array]:
    """For half a batch: by how much a step of size 1 moves."""
    model.set_weights(weights)
    x, y = (values[part * HALF :][:HALF] for values in samples())
    model.train_on_batch(x, y)
    return [one - two for one, two in zip(weights, model.get_weights(), strict=True)]


def _combined(one: Array, two: Array) -> Array:
    """Both, each without half of its projection on the other."""
    common = np.vdot(one, two)
    return one * (1 - common / (2 * np.vdot(one, one))) + two * (
        1 - common / (2 * np.vdot(two, two))
    )
