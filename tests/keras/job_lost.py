"""An elastic training of three ranks that loses one in the middle of an epoch.

`phalanx run --horovod --min-np 2 -n 3 python -m tests.keras.job_lost FOLDER`.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import horovod.keras as hvd
import keras
import numpy as np

EPOCHS, BATCHES, BATCH = 3, 6, 4
#: Who is lost, in which epoch, and after which of its batches.
LOST = (0, 1, 4)


class Losing(keras.callbacks.Callback):  # type: ignore[misc]
    """Has a rank killed while the others are in the next batch."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self._state = state

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if hvd.size() == 3 and (hvd.rank(), self._state.epoch, batch) == LOST:
            os.kill(os.getpid(), signal.SIGKILL)


def main(folder: Path) -> None:
    hvd.init()
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(40), keras.layers.Dense(1)])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01, momentum=0.9))
    model.compile(optimizer, "mse")
    x = np.random.default_rng(hvd.rank()).normal(size=(BATCH * BATCHES, 6)).astype("float32")
    state = hvd.elastic.KerasState(model, batch=0, epoch=0)
    found: dict[str, Any] = {"starts": [], "resets": []}
    state.register_reset_callbacks([lambda: found["resets"].append(hvd.size())])

    @hvd.elastic.run  # type: ignore[untyped-decorator]
    def train(state: Any) -> None:
        found["starts"].append([hvd.size(), state.epoch, state.batch])
        callbacks = [
            Losing(state),
            hvd.elastic.UpdateBatchStateCallback(state),
            hvd.elastic.UpdateEpochStateCallback(state),
            hvd.elastic.CommitStateCallback(state, batches_per_commit=2),
        ]
        epochs = EPOCHS - state.epoch
        model.fit(x, x.sum(1), BATCH, epochs, verbose=0, shuffle=False, callbacks=callbacks)

    train(state)
    found["end"] = [state.epoch, *(float(np.abs(one).sum()) for one in model.get_weights())]
    (folder / f"rank-{hvd.rank()}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
