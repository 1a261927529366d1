"""A Horovod script for Keras, unchanged but for its import. Run it on any number of ranks:

    KERAS_BACKEND=torch phalanx run -n 4 python examples/horovod_keras.py

The numbered comments are the steps of Horovod's own guide. KERAS_BACKEND may be jax or tensorflow.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import torch

import phalanx.data
import phalanx.keras as hvd

EPOCHS, BATCH_SIZE, LEARNING_RATE = 6, 16, 0.02


def main() -> None:
    """Train a small network on handwritten digits; batch size and learning rate are a rank's."""
    # 1. Start, and give each rank a GPU of its own, if there are any.
    hvd.init()
    hvd.pin_device()
    keras.utils.set_random_seed(7 + hvd.rank())

    # 2. Give each rank its part of the data: all ranks must have as many batches.
    digits = phalanx.data.load("digits")
    count = len(digits.train) // hvd.size() * hvd.size()
    train = digits.train.take(torch.arange(hvd.rank(), count, hvd.size()))
    x, y = train.inputs.numpy(), train.targets.numpy()

    # 3. Scale the learning rate: the global batch grows with the number of ranks.
    rate = LEARNING_RATE * hvd.size()

    # 4. Wrap the optimizer.
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(rate, momentum=0.9))
    model = make_model(x.shape[1:])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])

    # 5. Begin with the same weights everywhere, average the metrics, and warm up.
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(rate, warmup_epochs=2),
    ]
    # 6. Save and print on rank 0 alone.
    if hvd.rank() == 0:
        callbacks.append(keras.callbacks.ModelCheckpoint("horovod_digits.keras"))
    model.fit(x, y, BATCH_SIZE, EPOCHS, callbacks=callbacks, verbose=0 if hvd.rank() else 2)

    # 7. Evaluate on all ranks: what each gets right is added up.
    test = digits.test.take(torch.arange(hvd.rank(), len(digits.test), hvd.size()))
    scores = model.predict(test.inputs.numpy(), verbose=0)
    right = np.sum(scores.argmax(1) == test.targets.numpy())
    accuracy = hvd.allreduce(right, op=hvd.Sum) / len(digits.test)
    if hvd.rank() == 0:
        print(f"{hvd.size()} ranks: accuracy {accuracy:.2%}", flush=True)


def make_model(shape: tuple[int, ...]) -> keras.Model:
    """A small network, as without Horovod."""
    return keras.Sequential(
        [
            keras.Input(shape),
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


if __name__ == "__main__":
    main()
