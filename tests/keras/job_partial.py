"""Scenarios of the job: gradients that travel, that stay, and that a tape has."""

from pathlib import Path
from typing import Any

import keras
import numpy as np

import phalanx.keras as hvd
from tests.keras.small import HALF, Array, compiled, make_model, message, own_half, samples


def partial(_folder: Path) -> Any:
    """Where a step of size 1 leads: the last layer is this rank's own."""
    model = make_model(seed=1)
    wrap, plain = hvd.PartialDistributedOptimizer, keras.optimizers.SGD
    unscaled = make_model(seed=1)
    registered = make_model(seed=1)
    optimizer = hvd.DistributedOptimizer(plain(1.0))
    for variable in registered.layers[-1].variables:
        optimizer.register_local_var(variable)
    return {
        "own": _moved(make_model(seed=1), plain(1.0)),
        "partial": _moved(model, wrap(plain(1.0), local_layers=model.layers[-1])),
        "unscaled": _moved(
            unscaled,
            wrap(plain(1.0), local_layers=unscaled.layers[-1:], scale_local_gradients=False),
        ),
        "registered": _moved(registered, optimizer),
        "several": _moved_by_passes(wrap, plain),
        "callback": _kept_by_the_callback(),
        "refused": _refused(wrap, plain),
    }


def _moved(model: Any, optimizer: Any) -> list[float]:
    before = model.get_weights()
    x, y = samples()
    compiled(model, optimizer).train_on_batch(own_half(x)[:HALF], own_half(y)[:HALF])
    return _sums(before, model.get_weights())


def _moved_by_passes(wrap: Any, plain: Any) -> list[float]:
    """The same batch twice, added up: twice as far."""
    model = make_model(seed=1)
    before = model.get_weights()
    compiled(model, wrap(plain(1.0), local_layers=model.layers[-1], backward_passes_per_step=2))
    x, y = samples()
    for _ in range(2):
        model.train_on_batch(own_half(x)[:HALF], own_half(y)[:HALF])
    return _sums(before, model.get_weights())


def _sums(before: list[Array], after: list[Array]) -> list[float]:
    """One number for each variable; weighted, since the gradients of a softmax add up to zero."""
    pairs = zip(before, after, strict=True)
    return [float(((one - two).ravel() * np.arange(1, one.size + 1)).sum()) for one, two in pairs]


def _kept_by_the_callback() -> list[bool]:
    """Whether weights differ between the ranks after a broadcast but for the last layer's."""
    model = compiled(make_model(seed=1 + hvd.rank()), keras.optimizers.SGD(0.0))
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    for variable in model.layers[-1].variables:
        callback.register_local_var(variable)
    callback.set_model(model)
    callback.on_train_begin()
    sums = hvd.allgather_object([float(np.abs(one).sum()) for one in model.get_weights()])
    return [one != two for one, two in zip(*sums, strict=True)]


def _refused(wrap: Any, plain: Any) -> list[str]:
    layer = keras.layers.Dense(1)
    scaled = keras.optimizers.LossScaleOptimizer
    return [
        message(lambda: wrap(plain(1.0), local_layers="dense")),
        message(lambda: wrap(plain(1.0, global_clipnorm=1.0), local_layers=layer)),
        message(lambda: wrap(scaled(plain(1.0)), local_layers=layer)),
    ]


def tape(_folder: Path) -> Any:
    """A loop of the user's own, run by TensorFlow alone and compiled."""
    if keras.backend.backend() != "tensorflow":
        return message(lambda: hvd.DistributedGradientTape(None))
    import tensorflow as tf

    def moved(gradients: Any) -> list[float]:
        model = make_model(seed=1 + hvd.rank())
        hvd.broadcast_variables(model.variables, root_rank=0)
        optimizer = keras.optimizers.SGD(1.0)
        before = model.get_weights()
        optimizer.apply_gradients(zip(gradients(model), model.trainable_variables, strict=True))
        return _sums(before, model.get_weights())

    def partly(model: Any) -> Any:
        wrap = hvd.PartialDistributedGradientTape
        return _by_tape(model, wrap, local_layers=[model.layers[-1]])

    variable = tf.Variable([1.0, 2.0])
    with hvd.DistributedGradientTape(tf.GradientTape(persistent=True)) as one:
        value = tf.reduce_sum(variable * (1.0 + hvd.rank()))
    twice = tf.GradientTape()
    return {
        "own": _moved(make_model(seed=1), keras.optimizers.SGD(1.0)),
        "eager": moved(_by_tape),
        "compiled": moved(lambda model: tf.function(lambda: _by_tape(model))()),
        "sum": moved(lambda model: _by_tape(model, op=hvd.Sum)),
        "partial": moved(partly),
        "single": one.gradient(value, variable).numpy().tolist(),
        "named": one.gradient(value, {"a": variable})["a"].numpy().tolist(),
        "missing": one.gradient(value, [variable, tf.Variable(1.0)])[1] is None,
        "refused": [
            message(lambda: hvd.DistributedGradientTape(3)),
            message(lambda: [hvd.DistributedGradientTape(twice) for _ in range(2)]),
        ],
    }


def _by_tape(model: Any, wrap: Any = hvd.DistributedGradientTape, **options: Any) -> Any:
    import tensorflow as tf

    x, y = (own_half(one)[:HALF] for one in samples())
    with tf.GradientTape() as tape:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(
            y, model(x, training=True)
        )
    return wrap(tape, **options).gradient(loss, model.trainable_variables)
