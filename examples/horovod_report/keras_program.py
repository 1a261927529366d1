"""The report's tf.keras program, as it is written with Horovod: 500 values, 256 neurons, 10 digits.

    KERAS_BACKEND=torch phalanx run -n 2 python -m examples.horovod_report.keras_program

KERAS_BACKEND may be jax or tensorflow. The import of `hvd` is all that differs from Horovod's
`import horovod.keras as hvd`; numbered comments are the report's steps.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

import phalanx.keras as hvd
from examples.horovod_report.data import load_digits

BATCH_SIZE = 32
LEARNING_RATE = 0.01


def main() -> None:
    arguments = parse_arguments()

    # 1. Initialise Horovod.
    hvd.init()

    # 2. Give each process a GPU of its own, whose memory TensorFlow takes as it is needed.
    hvd.pin_device()
    keras.utils.set_random_seed(7 + hvd.rank())

    # Each rank has samples of its own, and as many batches as the others.
    train, test = load_digits()
    here = slice(hvd.rank(), len(train.targets) // hvd.size() * hvd.size(), hvd.size())
    x, y = train.inputs[here].numpy(), train.targets[here].numpy()

    # 3. Scale the learning rate, and 4. distribute the optimizer.
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(LEARNING_RATE * hvd.size()))
    model = make_model()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])

    # 5. Broadcast the initial state.
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
    ]
    hvd.barrier()
    started = time.perf_counter()
    verbose = 0 if hvd.rank() else 2
    model.fit(x, y, BATCH_SIZE, arguments.epochs, callbacks=callbacks, verbose=verbose)
    hvd.barrier()
    seconds = time.perf_counter() - started

    # Each rank evaluates samples of its own, and what each gets right is added up.
    here = slice(hvd.rank(), len(test.targets), hvd.size())
    outputs = model.predict(test.inputs[here].numpy(), verbose=0)
    right = np.sum(outputs.argmax(1) == test.targets[here].numpy())
    accuracy = float(hvd.allreduce(right, op=hvd.Sum)) / len(test.targets)

    # 6. What is to be done once is done on one rank.
    if hvd.rank() == 0:
        path = arguments.output / "model.keras"
        model.save(path)
        print(f"{hvd.size()} ranks: time {seconds:.3f} s, accuracy {accuracy:.2%}, saved {path}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The report's tf.keras program.")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--output", type=Path, default=Path(), help="a folder for the model")
    return parser.parse_args()


def make_model() -> keras.Model:
    """A sequential model of an input layer, a hidden one and an output layer."""
    return keras.Sequential(
        [
            keras.Input((500,)),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


if __name__ == "__main__":
    main()
