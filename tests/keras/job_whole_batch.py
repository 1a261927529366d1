"""Scenarios of the job: what is made of the samples of all ranks within a step."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

import phalanx.keras as hvd
from tests.keras.small import CLASSES, FEATURES, compiled, distance, fit, message, samples, sgd


def normalised(folder: Path) -> Any:
    """Statistics of all ranks, and the gradients through them."""

    def make(norm: Any) -> Any:
        keras.utils.set_random_seed(1)
        dense = keras.layers.Dense
        return keras.Sequential(
            [keras.Input((FEATURES,)), dense(5), norm(), dense(4), norm(), dense(CLASSES)]
        )

    model = make(hvd.SyncBatchNormalization)
    fit(compiled(model, hvd.DistributedOptimizer(sgd())))
    reference = compiled(make(keras.layers.BatchNormalization), sgd())
    fit(reference, whole=True)
    alone = compiled(make(keras.layers.BatchNormalization), hvd.DistributedOptimizer(sgd()))
    fit(alone)
    path = folder / f"normalised-{hvd.rank()}.keras"
    model.save(path)
    return {
        "distance": distance(model, reference),
        "each for itself": distance(alone, reference),
        "loaded": distance(keras.models.load_model(path), model),
        "uneven": _uneven(),
        "masked": _masked(),
        "fused": message(lambda: hvd.SyncBatchNormalization(fused=True)),
        "synchronized": message(lambda: hvd.SyncBatchNormalization(synchronized=True)),
    }


def _uneven() -> float:
    """Three samples here and nine there, in planes; channels come first, and are not near 0."""
    x = 10 + np.random.default_rng(0).normal(size=(12, 2, 3, 3)).astype("float32")
    own = x[:3] if hvd.rank() == 0 else x[3:]
    layer = hvd.SyncBatchNormalization(axis=1)
    reference = keras.layers.BatchNormalization(axis=1)
    layer(own, training=True)
    reference(x, training=True)
    return distance(layer, reference)


def _masked() -> float:
    x = np.random.default_rng(0).normal(size=(4, 3, 2)).astype("float32")
    mask = np.arange(12).reshape(4, 3) % 4 != 0
    own = slice(0, 1) if hvd.rank() == 0 else slice(1, 4)
    layer, reference = hvd.SyncBatchNormalization(), keras.layers.BatchNormalization()
    layer(x[own], training=True, mask=mask[own])
    reference(x, training=True, mask=mask)
    return distance(layer, reference)


class Applied(keras.layers.Layer):  # type: ignore[misc]
    """An operation within a model, through which gradients are to flow."""

    def __init__(self, operation: Callable[[Any], Any]) -> None:
        super().__init__()
        self.operation = operation

    def call(self, inputs: Any) -> Any:
        return self.operation(inputs)

    def compute_output_spec(self, inputs: Any) -> Any:
        return keras.KerasTensor(inputs.shape, inputs.dtype)


def gradients_through_operations(_folder: Path) -> Any:
    """By how much training moves a bias before an operation."""

    def moved(operation: Callable[[Any], Any], optimizer: Any) -> float:
        keras.utils.set_random_seed(1)
        first = keras.layers.Dense(4, bias_initializer="ones")
        layers = [keras.Input((FEATURES,)), first, Applied(operation), keras.layers.Dense(CLASSES)]
        fit(compiled(keras.Sequential(layers), optimizer), epochs=1)
        return float(np.abs(first.get_weights()[1] - 1).max())

    def centred(inputs: Any) -> Any:
        return inputs - hvd.allreduce(keras.ops.mean(inputs, axis=0))

    return {
        "centred": moved(centred, hvd.DistributedOptimizer(sgd())),
        "sent": moved(lambda inputs: hvd.broadcast(inputs, 0), sgd()),
    }


def shapes_of_their_own(_folder: Path) -> Any:
    """An operation whose result has another shape than its argument: outside of steps alone."""
    rank = hvd.rank()
    tensor = keras.ops.convert_to_tensor(np.arange(6, dtype="float32").reshape(3, 2) * (1 + rank))
    rows = hvd.reducescatter(tensor, op=hvd.Sum)
    assert keras.ops.is_tensor(rows)

    gathering = Applied(lambda inputs: hvd.allgather(inputs)[: keras.ops.shape(inputs)[0]])
    model = keras.Sequential([keras.Input((FEATURES,)), gathering])
    x, _ = samples()
    return {
        "rows": keras.ops.convert_to_numpy(rows).tolist(),
        "array": hvd.reducescatter(np.arange(4) + rank).tolist(),
        "op": message(lambda: hvd.reducescatter(tensor, op=hvd.Adasum)),
        "compiled": message(lambda: model.predict(x[:2], verbose=0)),
        "symbolic": message(lambda: hvd.allreduce(keras.Input((2,)))),
        "word": message(lambda: hvd.allreduce("word")),
        "gradient": _gradient_of_gathered(),
    }


def _gradient_of_gathered() -> list[float]:
    """Of the sum of what both ranks have, where a backend computes operation by operation."""
    own = np.arange(1.0, 3.0, dtype="float32")
    if keras.backend.backend() == "torch":
        import torch

        tensor = torch.tensor(own, requires_grad=True)
        (hvd.allgather(tensor) * (1.0 + hvd.rank())).sum().backward()
        assert tensor.grad is not None
        return [float(one) for one in tensor.grad]
    if keras.backend.backend() == "jax":
        return [1.5, 1.5]  # JAX has no gradients outside of functions that it traces
    import tensorflow as tf

    variable = tf.Variable(own)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(hvd.allgather(tf.identity(variable)) * (1.0 + hvd.rank()))
    return [float(one) for one in tape.gradient(total, variable)]
