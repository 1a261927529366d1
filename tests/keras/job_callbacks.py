"""Scenarios of the job: what callbacks do, and what is saved and loaded."""

from pathlib import Path
from typing import Any

import keras

import phalanx.keras as hvd
from phalanx.errors import UsageError
from tests.keras.small import compiled, distance, fit, make_model, sgd


class Recorder(keras.callbacks.Callback):  # type: ignore[misc]
    """What the learning rate was in each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.rates.append(float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)))


def schedules(_folder: Path) -> Any:
    def rates(*callbacks: Any, epochs: int) -> list[float]:
        recorder = Recorder()
        model = compiled(make_model(seed=1), hvd.DistributedOptimizer(sgd()))
        history = fit(model, epochs=epochs, callbacks=[*callbacks, recorder])
        assert len(history["lr"]) == epochs
        return recorder.rates

    warmup = hvd.callbacks.LearningRateWarmupCallback(0.8, warmup_epochs=2, verbose=1)
    schedule = hvd.callbacks.LearningRateScheduleCallback
    steps = [
        schedule(0.8, lambda _epoch: 0.5, start_epoch=1, end_epoch=2),
        schedule(0.8, lambda _epoch: 0.1, start_epoch=2),
    ]
    never = hvd.callbacks.LearningRateWarmupCallback(0.8, warmup_epochs=0, verbose=1)
    return {
        "warmup": rates(warmup, epochs=3),
        "no warmup": rates(never, epochs=2),
        "steps": rates(*steps, epochs=3),
        "decay": rates(schedule(0.8, 0.5, start_epoch=1), epochs=4),
        "smooth decay": rates(schedule(0.8, 0.5, start_epoch=1, staircase=False), epochs=3),
        "smooth": rates(schedule(0.8, lambda epoch: 1 / (1 + epoch), staircase=False), epochs=2),
    }


def momentum_correction(_folder: Path) -> Any:
    """Momentum is scaled with the learning rate, in compiled steps too."""
    schedule = hvd.callbacks.LearningRateScheduleCallback(0.1, lambda epoch: 0.5**epoch)
    model = compiled(make_model(seed=1), hvd.DistributedOptimizer(sgd()))
    fit(model, callbacks=[schedule])
    reference = compiled(make_model(seed=1), sgd())
    fit(reference, whole=True, epochs=1)
    reference.optimizer.learning_rate = 0.05
    for momentum in reference.optimizer.momentums:
        momentum.assign(momentum * 0.5)
    fit(reference, whole=True, epochs=1)
    return distance(model, reference)


def saved_and_loaded(folder: Path) -> Any:
    """Rank 0 writes; plain Keras reads it, and training goes on from it."""
    path = folder / "model.keras"
    model = compiled(make_model(seed=1), hvd.DistributedOptimizer(sgd()))
    best = folder / f"best-{hvd.rank()}.keras"
    fit(model, callbacks=[hvd.callbacks.BestModelCheckpoint(best, monitor="loss")])
    if hvd.rank() == 0:
        model.save(path)
    hvd.barrier()
    loaded, plain = hvd.load_model(path), keras.models.load_model(path)
    before = distance(loaded, model)
    fit(model)
    fit(loaded)
    fit(plain, whole=True)
    return {
        "loaded": before,
        "afterwards": distance(loaded, model),
        "plain": distance(plain, model),
        "best": best.exists(),
        "class": type(plain.optimizer) is type(sgd()),
    }


def best_models(folder: Path) -> Any:
    """Both forms of the checkpoint: Phalanx's with a file, and Horovod's without."""
    checkpoint = hvd.callbacks.BestModelCheckpoint
    first, later = folder / f"first-{hvd.rank()}.keras", folder / f"later-{hvd.rank()}.keras"
    set_later = checkpoint("loss", save_freq="epoch")
    set_later.filepath = str(later)
    by_name = checkpoint(monitor="loss", filepath=str(first))
    fit(compiled(make_model(seed=1), sgd()), epochs=1, callbacks=[by_name, set_later])
    message = None
    try:
        nowhere = checkpoint(monitor="val_loss", mode="min")
        fit(compiled(make_model(seed=1), sgd()), epochs=1, callbacks=[nowhere])
    except UsageError as error:
        message = str(error)
    monitors = [one.monitor for one in (set_later, by_name, checkpoint("best.keras"), nowhere)]
    return {"saved": [first.exists(), later.exists()], "monitors": monitors, "message": message}
