"""What the tests of the Keras interface look at: a job of two ranks, run once for each backend.

    phalanx run -n 2 python -m tests.keras.job FOLDER

Each function is a scenario; what it returns on a rank is written to FOLDER, for the tests to judge.
A backend cannot be changed within a process, which is why these are not tests by themselves.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

import phalanx.keras as hvd
from tests.keras.job_adasum import adasum
from tests.keras.job_callbacks import best_models, momentum_correction, saved_and_loaded, schedules
from tests.keras.job_partial import partial, tape
from tests.keras.job_variables import global_variables, old_options, restored, started_again
from tests.keras.job_whole_batch import (
    gradients_through_operations,
    normalised,
    shapes_of_their_own,
)
from tests.keras.small import (
    BATCH,
    CLASSES,
    HALF,
    compiled,
    distance,
    fit,
    make_model,
    message,
    own_half,
    samples,
    sgd,
    trained_alone,
)


def parity(
    make: Callable[[], Any], alone: Callable[[], Any] | None = None, **options: Any
) -> float:
    """How far two ranks end from one rank on the joined batches; they begin differently."""
    compile_options = options.pop("compile_options", {})
    model = make_model(seed=1 + hvd.rank())
    compiled(model, hvd.DistributedOptimizer(make(), **options), **compile_options)
    fit(model, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    return distance(model, trained_alone(alone or make)[0])


def equals_one_rank(_folder: Path) -> Any:
    several = 1 if keras.backend.backend() == "torch" else 2  # which has no more at once
    return {
        "sgd": parity(sgd),
        "adam": parity(lambda: keras.optimizers.Adam(0.01)),
        "several steps": parity(sgd, compile_options={"steps_per_execution": several}),
        "fp16": parity(sgd, compression=hvd.Compression.fp16),
        "sum": parity(sgd, lambda: keras.optimizers.SGD(0.2, momentum=0.9), op=hvd.Sum),
        "predivided": parity(sgd, gradient_predivide_factor=2.0),
        "local gradients": parity(sgd, scale_local_gradients=True),
    }


def several_passes(_folder: Path) -> Any:
    def accumulating() -> Any:
        return sgd(gradient_accumulation_steps=2)

    def doubled() -> Any:  # the sum of two passes is twice their average
        return keras.optimizers.SGD(0.2, momentum=0.9, gradient_accumulation_steps=2)

    averaged = {"backward_passes_per_step": 2, "average_aggregated_gradients": True}
    return {
        "averaged": parity(sgd, accumulating, **averaged),
        "summed": parity(sgd, doubled, backward_passes_per_step=2),
        "Keras's own": parity(accumulating),
    }


def not_compiled(_folder: Path) -> Any:
    """Steps that run operation by operation."""
    model = make_model(seed=1)
    compiled(model, hvd.DistributedOptimizer(sgd()), run_eagerly=True)
    fit(model)
    return distance(model, trained_alone(sgd)[0])


def embedding(_folder: Path) -> Any:
    def make() -> Any:
        keras.utils.set_random_seed(1)
        rows = keras.layers.Embedding(CLASSES, 4)
        return keras.Sequential([keras.Input((1,)), rows, keras.layers.Dense(CLASSES)])

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    _, y = samples()
    x, target = y.reshape(-1, 1), y.reshape(-1, 1)
    model, reference = make(), make()
    model.compile(hvd.DistributedOptimizer(sgd()), loss)
    model.fit(own_half(x), own_half(target), HALF, verbose=0, shuffle=False)
    reference.compile(sgd(), loss)
    reference.fit(x, target, BATCH, verbose=0, shuffle=False)
    return distance(model, reference)


def metrics(_folder: Path) -> Any:
    model = compiled(make_model(seed=1), hvd.DistributedOptimizer(sgd()))
    history = fit(model, callbacks=[hvd.callbacks.MetricAverageCallback()])
    return {"two": history, "one": trained_alone(sgd)[1]}


def overflow(_folder: Path) -> Any:
    """Rank 1's gradients overflow in the first batch: no rank may be left waiting."""

    def run(wrap: Callable[[Any], Any]) -> Any:
        keras.config.set_dtype_policy("mixed_float16")
        model = compiled(make_model(seed=1), wrap(sgd()))
        keras.config.set_dtype_policy("float32")
        x, y = samples()
        x, y = own_half(x), own_half(y)
        if hvd.rank() == 1:
            x[0] = 1e6
        model.fit(x, y, HALF, 2, verbose=0, shuffle=False)
        scale = float(keras.ops.convert_to_numpy(model.optimizer.dynamic_scale))
        iterations = int(keras.ops.convert_to_numpy(model.optimizer.iterations))
        weights = np.concatenate([one.ravel() for one in model.get_weights()])
        return [scale, iterations, bool(np.isfinite(weights).all()), float(weights.sum())]

    scaled = keras.optimizers.LossScaleOptimizer
    return {
        "by compile": run(hvd.DistributedOptimizer),
        "inside": run(lambda one: scaled(hvd.DistributedOptimizer(one))),
        "outside": run(lambda one: hvd.DistributedOptimizer(scaled(one))),
    }


def values(_folder: Path) -> Any:
    """Operations on arrays, numbers and the backend's own tensors."""
    rank = hvd.rank()
    tensor = keras.ops.convert_to_tensor(np.full((2, 2), rank, "float32"))
    reduced, sent = hvd.allreduce(tensor, op=hvd.Sum), hvd.broadcast(tensor, 1)
    gathered = hvd.allgather(keras.ops.convert_to_tensor(np.full(1 + rank, rank, "int32")))
    assert all(keras.ops.is_tensor(one) for one in (reduced, sent, gathered))
    whole = keras.Variable(np.full(3, rank), trainable=False, dtype="int32")
    variables = [keras.Variable(float(rank)), whole]
    hvd.broadcast_global_variables(1, variables)
    return {
        "reduced": keras.ops.convert_to_numpy(reduced).tolist(),
        "sent": keras.ops.convert_to_numpy(sent).tolist(),
        "gathered": keras.ops.convert_to_numpy(gathered).tolist(),
        "array": hvd.allreduce(np.array([rank, 2.0])).tolist(),
        "number": float(hvd.allreduce(float(rank))),
        "object": hvd.broadcast_object({"rank": rank}, root_rank=1),
        "variables": [keras.ops.convert_to_numpy(one.value).tolist() for one in variables],
        "ranks": [hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank()],
        "device": hvd.pin_device(),
    }


def in_a_compiled_step(_folder: Path) -> Any:
    """A user's own use of an operation within a step that gets compiled."""

    class Averaging(keras.layers.Layer):  # type: ignore[misc]
        def call(self, inputs: Any) -> Any:
            return inputs + hvd.allreduce(keras.ops.sum(keras.ops.stop_gradient(inputs)))

        def compute_output_shape(self, shape: Any) -> Any:
            return shape

        def compute_output_spec(self, inputs: Any) -> Any:
            return keras.KerasTensor(inputs.shape, inputs.dtype)

    model = keras.Sequential([keras.Input((2,)), Averaging()])
    return model.predict(np.full((1, 2), hvd.rank(), "float32"), verbose=0).tolist()


def refusals(_folder: Path) -> Any:
    def compile_with_xla() -> None:
        model = make_model(seed=1)
        compiled(model, hvd.DistributedOptimizer(sgd()), jit_compile=True)
        fit(model)

    built = sgd()
    built.build(make_model(seed=1).trainable_variables)
    wrap = hvd.DistributedOptimizer
    found = {
        "twice": message(lambda: wrap(wrap(sgd()))),
        "no optimizer": message(lambda: wrap("sgd")),
        "op": message(lambda: wrap(sgd(), op=hvd.Max)),
        "built": message(lambda: wrap(built, backward_passes_per_step=2)),
        "compression": message(lambda: wrap(sgd(), compression=None)),
        "process set": message(lambda: wrap(sgd(), process_set=[0, 1])),  # type: ignore[arg-type]
        "custom": message(lambda: hvd.load_model("it.keras", ["adam"])),  # type: ignore[list-item]
        "local": message(lambda: wrap(sgd()).register_local_var("kernel")),
        "variables": message(lambda: hvd.broadcast_global_variables(0, [3])),
    }
    if keras.backend.backend() == "tensorflow":
        found["xla"] = message(compile_with_xla)
    return found


SCENARIOS = [
    equals_one_rank, several_passes, not_compiled, embedding, metrics, schedules,
    momentum_correction, overflow, saved_and_loaded, best_models, values, in_a_compiled_step,
    adasum, refusals, partial, tape, normalised, gradients_through_operations, shapes_of_their_own,
    global_variables, old_options, restored, started_again,
]  # fmt: skip


def main() -> None:
    folder = Path(sys.argv[1])
    hvd.init()
    found = {scenario.__name__: scenario(folder) for scenario in SCENARIOS}
    (folder / f"rank-{hvd.rank()}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
