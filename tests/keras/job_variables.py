"""Scenarios of the job: variables that all ranks get, and trainings that start again."""

from pathlib import Path
from typing import Any

import keras
import numpy as np

import phalanx.keras as hvd
from tests.keras.small import (
    BATCHES,
    compiled,
    distance,
    fit,
    make_model,
    message,
    sgd,
)


def global_variables(_folder: Path) -> Any:
    """All that there are in this process, without being named."""
    rank = hvd.rank()
    keras.utils.clear_session()
    model = make_model(seed=1 + rank)
    optimizer = sgd(name="mine")
    optimizer.build(model.trainable_variables)
    optimizer.learning_rate = 0.1 * (1 + rank)
    dropout = keras.layers.Dropout(0.5, seed=rank)
    dropout.build((1,))
    hvd.broadcast_global_variables(1)
    found: dict[str, Any] = {
        "distance": distance(model, make_model(seed=2)),
        "rate": float(keras.ops.convert_to_numpy(optimizer.learning_rate)),
        "seed": int(keras.ops.convert_to_numpy(dropout.seed_generator.state)[0]),
    }
    extra = keras.layers.Dense(1, name=f"of_rank_{rank}")
    extra.build((None, 1))
    found["different"] = message(lambda: hvd.broadcast_global_variables(0))
    del extra
    same = [sgd(name="mine") for _ in range(2)]
    found["same names"] = message(lambda: hvd.broadcast_global_variables(0))
    del same
    shapes = [(2, 3), (3, 2)] if rank == 0 else [(3, 2), (2, 3)]
    variables = [keras.Variable(np.zeros(shape)) for shape in shapes]
    found["order"] = message(lambda: hvd.broadcast_variables(variables, 0))
    found["no variable"] = message(lambda: hvd.broadcast_variables([np.zeros(2)], 0))
    return found


def old_options(folder: Path) -> Any:
    """What scripts for Keras 2 give."""
    model = make_model(seed=1)
    compiled(model, hvd.DistributedOptimizer(sgd()), experimental_run_tf_function=False)
    fit(model, epochs=1)
    plain: Any = None
    try:
        compiled(make_model(seed=1), sgd(), experimental_run_tf_function=False)
    except TypeError as error:
        plain = str(error)
    path = folder / f"old-{hvd.rank()}.keras"
    model.save(path)
    loaded = hvd.load_model(path, None, None, hvd.Compression.none, False)
    return {
        "plain": plain,
        "loaded": distance(loaded, model),
        "legacy": message(lambda: hvd.load_model(path, legacy_opts=True)),
    }


class Failing(keras.callbacks.Callback):  # type: ignore[misc]
    """Ranks that bring different shapes once: all of them fail."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []
        self.failed = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.batches.append(batch)
        if len(self.batches) == BATCHES + 3:
            self.failed = True
            hvd.allreduce(np.zeros(1 + hvd.rank()))


class FailingOnce(keras.layers.Layer):  # type: ignore[misc]
    """The same in the middle of a step, where the backend hides the reason."""

    calls = 0

    def call(self, inputs: Any) -> Any:
        from phalanx.keras import bridge

        def on_host(tensors: Any) -> Any:
            FailingOnce.calls += 1
            if FailingOnce.calls == BATCHES + 2:
                hvd.allreduce(np.zeros(1 + hvd.rank()))
            return [bridge.as_tensor(np.asarray(one)) for one in tensors]

        kept = keras.ops.stop_gradient(keras.ops.sum(inputs))
        (known,) = bridge.call(on_host, [kept])
        return inputs + 0 * known

    def compute_output_spec(self, inputs: Any) -> Any:
        return keras.KerasTensor(inputs.shape, inputs.dtype)


def _train(model: Any, *more: Any) -> Any:
    """Four epochs in the end, whatever happens on the way."""
    elastic = hvd.elastic
    state: Any = elastic.KerasState(
        compiled(model, hvd.DistributedOptimizer(sgd())), batch=0, epoch=0
    )
    starts: list[list[int]] = []

    @elastic.run
    def train(state: Any) -> str:
        starts.append([state.epoch, state.batch])
        callbacks = [
            *more,
            elastic.UpdateBatchStateCallback(state),
            elastic.UpdateEpochStateCallback(state),
            elastic.CommitStateCallback(state, batches_per_commit=2),
        ]
        fit(model, epochs=4 - state.epoch, callbacks=callbacks)
        return "done"

    return {"result": train(state), "starts": starts, "end": [state.epoch, state.batch]}


def started_again(_folder: Path) -> Any:
    """A training that fails after its last commit, in a callback and in a step."""
    failing = Failing()
    found: dict[str, Any] = {"callback": _train(make_model(seed=1 + hvd.rank()), failing)}
    found["batches"] = failing.batches
    inside = make_model(seed=1 + hvd.rank())
    inside = keras.Sequential([keras.Input(inside.input_shape[1:]), FailingOnce(), *inside.layers])
    found["step"] = _train(inside)
    found["same"] = [hvd.allgather_object(float(np.abs(one).sum())) for one in inside.get_weights()]
    found["refused"] = _refused()
    return found


def restored(_folder: Path) -> Any:
    """A state alone: what is kept, what comes back, and what rank 0 has."""
    model = compiled(make_model(seed=1 + hvd.rank()), hvd.DistributedOptimizer(sgd()))
    state: Any = hvd.elastic.TensorFlowKerasState(model, epoch=hvd.rank())
    state.sync()
    synced = distance(model, make_model(seed=1))
    fit(model, epochs=1)
    kept = [one.copy() for one in model.get_weights()]
    momentum = keras.ops.convert_to_numpy(model.optimizer.momentums[0]).copy()
    state.commit()
    fit(model, epochs=1)
    state.epoch = 9
    state.restore()
    back = keras.ops.convert_to_numpy(model.optimizer.momentums[0])
    after = [float(np.abs(a - b).max()) for a, b in zip(kept, model.get_weights(), strict=True)]
    return {
        "synced": synced,
        "after": [*after, float(np.abs(momentum - back).max())],
        "epoch": state.epoch,
    }


def _refused() -> list[str]:
    elastic = hvd.elastic
    state = elastic.KerasState(compiled(make_model(seed=1), sgd()))
    empty = keras.Sequential([keras.layers.Dense(1)])
    return [
        message(lambda: elastic.KerasState(empty)),
        message(lambda: elastic.KerasState(3)),
        message(lambda: elastic.CommitStateCallback(state, 0)),
        message(lambda: elastic.UpdateBatchStateCallback(state)),
        message(lambda: elastic.UpdateEpochStateCallback(state)),
        message(lambda: elastic.CommitStateCallback(5)),  # type: ignore[arg-type]
        message(lambda: elastic.KerasState(make_model(seed=1), 6)),
        message(lambda: elastic.TensorFlowKerasState(make_model(seed=1), backend=7)),
    ]
