"""From a session to a trained model in a run folder: what `phalanx train` does on each rank."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, cast

import torch

from phalanx.clock import phase
from phalanx.comm.launch.process import memory_share
from phalanx.data.batches import batch_count
from phalanx.data.location import data_path
from phalanx.data.split import hold_out
from phalanx.runs.folder import RunFolder
from phalanx.runs.inputs import input_values
from phalanx.runs.weights import save_weights, weights_digest
from phalanx.strategies.base import TextTable
from phalanx.strategies.registry import make, workers
from phalanx.train.compute import MemoryFormat, memory_of_host
from phalanx.train.epoch import Epoch
from phalanx.train.layer_times import layer_times
from phalanx.train.metrics import confusion_table
from phalanx.train.optimizers import make_optimizer
from phalanx.train.profile import Phases
from phalanx.train.progress import Progress
from phalanx.train.schedules import Schedule
from phalanx.train.session import Session
from phalanx.train.stopping import Stopping
from phalanx.train.trainer import Trainer

#: Shows a table to a person.
Show = Callable[[TextTable], None]


def train(
    session: Session, run: RunFolder | None, *, progress: Progress, show: Show = lambda table: None
) -> dict[str, Any]:
    """Collective. Train, evaluate and save; rank 0 has the run folder. The result's values.

    `show` gets what the strategy and the profile have to say, as soon as they can say it.
    """
    with phase("prepare"):
        trainer = make_trainer(session)
        tables = [*trainer.plan()]
    for table in tables:
        show(table)
    test, settings = session.dataset.test, session.settings
    before = trainer.evaluate(test) if settings.evaluate_first else None
    result = _facts(session, trainer) | {"test_before": None if before is None else asdict(before)}
    result |= _fit(session, trainer, run, progress)
    trainer.sync()
    if run is not None:  # at once: whatever fails from here on, the training is not lost
        save_weights(session.model, run.weights)
    after = trainer.evaluate(test)
    told = [*trainer.report()]
    if after.confusion:
        told.append(confusion_table(after, session.dataset.classes))
    phases = None if session.profile is None else session.profile.finish()
    result |= {"test": asdict(after), "tables": [asdict(table) for table in (*tables, *told)]}
    result |= {} if phases is None else {"phases": asdict(phases)}
    result |= _at_the_end(session)
    if run is not None:  # and then what only shows it
        run.write_result(result)
    for table in told:
        show(table)
    if phases is not None:
        _show_profile(session, phases, show)
    trainer.close()
    return result


def make_trainer(session: Session) -> Trainer:
    """Collective. The trainer that the settings ask for."""
    settings, options = session.settings, session.settings.strategy_options
    count = workers(session.strategy, session.comm.size, options)
    return Trainer(
        session.model,
        make_optimizer(settings, session.model.parameters(), workers=count),
        loss=session.loss,
        strategy=make(session.strategy, options),
        comm=session.comm,
        seed=settings.seed,
        shards=settings.shards,
        clip_norm=settings.clip_norm,
        accumulate=settings.accumulate,
        compile=settings.compile,
        autocast=None if settings.autocast is None else getattr(torch, settings.autocast),
        memory_format=cast(MemoryFormat, settings.memory_format),
        metrics=settings.metrics,
    )


def _facts(session: Session, trainer: Trainer) -> dict[str, Any]:
    """Collective. What is known before the first step."""
    settings, dataset = session.settings, session.dataset
    path = data_path(settings.dataset, settings.data_dir)
    return {
        "strategy": session.strategy,
        "device": session.device.type,
        "ranks": session.comm.size,
        "training_ranks": sum(session.comm.allgather_objects(trainer.trains)),
        "threads": torch.get_num_threads(),
        "input_shape": list(dataset.input_shape),
        "classes": list(dataset.classes),
        "inputs": _inputs(session),
        "data": None if path is None else str(path.resolve()),
    }


def _inputs(session: Session) -> dict[str, Any]:
    """How samples are made of what is stored, for whoever uses the model."""
    options, shape = session.settings.data_options, session.stored_shape
    if session.settings.dataset == "images":  # which are decoded to this size from any other
        options = {"resize": f"{shape[1]}x{shape[2]}", **options}
    dataset = session.dataset
    return input_values(dataset.test, stored_shape=shape, options=options, table=dataset.table)


def _fit(
    session: Session, trainer: Trainer, run: RunFolder | None, progress: Progress
) -> dict[str, float | None]:
    """Collective. Train; how long it took, and how much was sent for it."""
    settings, dataset = session.settings, session.dataset
    train, validation = hold_out(dataset.train, settings.validation_split, seed=settings.seed)
    if settings.test_as_validation:
        validation = dataset.test
    steps = batch_count(len(train), session.batch_size)
    steps = min(steps, settings.steps_per_epoch or steps)

    def note(epoch: Epoch) -> None:
        if run is not None:
            run.add_epoch(epoch.row({} if session.profile is None else session.profile.lap()))

    sent = _bytes_sent(session)
    started = time.perf_counter()
    epochs = trainer.fit(
        train,
        epochs=settings.epochs,
        batch_size=session.batch_size,
        validation=validation,
        steps_per_epoch=steps,
        schedule=Schedule(trainer.optimizer, settings, steps_per_epoch=steps),
        stopping=Stopping(patience=settings.patience, goal=settings.goal),
        keep_best=settings.keep_best,
        progress=progress,
        on_epoch=note,
    )
    seconds = time.perf_counter() - started
    training = sum(epoch.seconds for epoch in epochs)
    samples = sum(epoch.train.count for epoch in epochs)
    sent = _bytes_sent(session) - sent
    return {
        "epochs": len(epochs),
        "seconds": seconds,
        "samples_per_second": samples / training if training else 0.0,
        "bytes_per_step": sent / (steps * max(len(epochs), 1)) if session.profile else None,
    }


def _bytes_sent(session: Session) -> int:
    return 0 if session.profile is None else session.profile.bytes_sent()


def _at_the_end(session: Session) -> dict[str, Any]:
    """Collective. What is known when all is done."""
    return {
        "memory_bytes": memory_of_host(session.comm),
        "memory_bytes_per_rank": max(session.comm.allgather_objects(memory_share())),
        "weights_sha256": weights_digest(session.model),
    }


def _show_profile(session: Session, phases: Phases, show: Show) -> None:
    """Collective. Show where the time went, and write the trace."""
    settings = session.settings
    if settings.profile:
        show(phases.table())
        if session.is_first:
            at_once = -(-session.batch_size // (session.comm.size * settings.accumulate))
            mine = torch.arange(min(session.training_count, at_once))
            samples = session.dataset.train.take(mine, dtype=session.dtype).to(session.device)
            show(layer_times(session.model, session.loss, samples))
    if settings.trace is not None and session.profile is not None:
        session.profile.write_trace(settings.trace)
