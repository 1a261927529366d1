"""From a session to a trained model in a run folder: what `phalanx train` does on each rank."""

import logging
import socket
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import torch

from phalanx.clock import phase
from phalanx.comm.launch.process import memory_share
from phalanx.data.batches import batch_count
from phalanx.errors import UsageError
from phalanx.models.table import parameter_count
from phalanx.runs.folder import CHECKPOINTS
from phalanx.runs.resuming import stopping_of
from phalanx.runs.weights import weights_digest
from phalanx.runs.writing import writing
from phalanx.runs.written import WrittenRun
from phalanx.state import State
from phalanx.strategies.base import TextTable
from phalanx.strategies.registry import make, workers
from phalanx.train.checkpointing import Checkpoints, obstacle
from phalanx.train.checks.learned import look_back
from phalanx.train.companions.schedules import Schedule
from phalanx.train.companions.stopping import Stopping
from phalanx.train.companions.turns import Turns
from phalanx.train.compute import MemoryFormat, device_memory, memory_of_host
from phalanx.train.epoch import Epoch, network_rows, phase_rows
from phalanx.train.interruption.stop_on_signal import StopOnSignal, StoppedError
from phalanx.train.measures.baselines import baselines
from phalanx.train.measures.last_test import last_test
from phalanx.train.measures.tables import result_tables
from phalanx.train.optimizers import make_optimizer
from phalanx.train.own_code import Callbacks, callbacks_of
from phalanx.train.profiling.layer_times import layer_times
from phalanx.train.profiling.profile import Phases
from phalanx.train.progress import Networks
from phalanx.train.session import Session, sample_facts, training_samples
from phalanx.train.speaker import Show, Speaker, Voice
from phalanx.train.survival import Survival
from phalanx.train.trainer import Trainer
from phalanx.wording import counted

log = logging.getLogger(__name__)

#: What passes compute in, by --precision.
_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


def train(
    session: Session,
    speaker: Speaker,
    *,
    start: State | Path | None = None,
    stop: StopOnSignal | None = None,
    survival: Survival | None = None,
    callbacks: Callbacks = lambda session, run: (),
) -> dict[str, Any]:
    """Collective. Train, evaluate and save; the result's values.

    It begins, or goes on from a state or from the newest whole checkpoint in a folder: on whatever
    ranks, with whatever strategy. After a failure call it again, with a session of the ranks that
    are left and the same speakers. With checkpoints, `stop` has it raise StoppedError.
    """
    turns = Turns()
    with phase("prepare"):
        own = callbacks_of(session.settings)
        voice = speaker.voice(session)
        parameters = parameter_count(session.model)  # all of them, also if ranks share them out
        trainer = make_trainer(session)
        trainer.survival = survival
        if start is not None:
            _go_on(session, trainer, voice, start)
        voice.introduce(session)
        for table in (tables := [*trainer.worker.plan()]):
            voice.show(table)
    if session.settings.evaluate_first and start is None:
        turns.test(before := trainer.evaluate(session.dataset.test))
        voice.tested(before)
    with phase("prepare"):
        result = _facts(session, trainer) | {"parameters": parameters}
        checkpoints = _checkpoints(session, speaker.folder)
        how = {"callbacks": [*own, *callbacks(session, speaker.folder)], "checkpoint": checkpoints}
    with nullcontext() if stop is None or checkpoints is None else stop as asked:
        result |= _fit(session, trainer, voice, turns, **how, stop=asked)
    _end_if_stopped(trainer)
    return _conclude(session, trainer, voice, result, tables=tables, turns=turns)


def _end_if_stopped(trainer: Trainer) -> None:
    """Collective. Go no further with a training that was stopped on its way; else it is over."""
    if trainer.stopped:
        trainer.close()
        raise StoppedError(trainer.stopped)
    trainer.sync()


def _go_on(session: Session, trainer: Trainer, voice: Voice, start: State | Path) -> None:
    """Collective. Have all stand where a training stood."""
    trainer.load(start)
    position, wanted = trainer.position, session.settings.epochs
    if wanted < position.epoch + position.inside_epoch:
        raise UsageError(
            f"--epochs {wanted}: the training has {counted(position.epoch, 'epoch')} behind it"
            f"{', and is in another one' if position.inside_epoch else ''}: take "
            f"{position.epoch + position.inside_epoch} or more"
        )
    if voice.run is not None:
        voice.run.go_back(position.epoch)
        is_over = position.epoch == wanted
        log.info("goes on from %s", "the end of its last epoch" if is_over else position)


def _conclude(
    session: Session,
    trainer: Trainer,
    voice: Voice,
    result: dict[str, Any],
    *,
    tables: list[TextTable],
    turns: Turns,
) -> dict[str, Any]:
    """Collective. Test what was trained, and write and show what came of it."""
    if voice.run is not None:  # at once: whatever fails from here on, the training is not lost
        voice.run.save_weights(session.model)
    after, shown = last_test(session, trainer)
    told = [*trainer.worker.report()]
    told += result_tables(shown, session.dataset.classes, task=session.settings.task)
    phases = None if session.profile is None else session.profile.finish()
    beside = baselines(session.comm, session.dataset, session.metrics)
    result |= {"test": asdict(after), "baselines": beside}
    result |= {"tables": [asdict(table) for table in (*tables, *told)]}
    result |= {} if phases is None else {"phases": asdict(phases)}
    if trainer.survival is not None:
        result["losses"] = [asdict(one) for one in trainer.survival.losses]
    result |= _at_the_end(session) | {
        "advice": look_back(session, trainer.position, test=after, losses=turns.losses)
    }
    if voice.run is not None:  # and then what only shows it
        voice.run.write_result(result)
    for table in told:
        voice.show(table)
    if phases is not None:
        _show_profile(session, phases, voice.show)
    trainer.close()
    return result


def make_trainer(session: Session) -> Trainer:
    """Collective. The trainer that the settings ask for."""
    settings, options = session.settings, session.settings.strategy_options
    objective = session.objective
    count = workers(session.strategy, session.comm.size, options)
    trainer = Trainer(
        session.model,
        make_optimizer(settings, session.model.parameters(), workers=count),
        loss=session.loss if objective is None else None,
        objective=objective,
        strategy=make(session.strategy, options),
        comm=session.comm,
        seed=settings.seed,
        shards=settings.shards,
        clip_norm=settings.clip_norm,
        accumulate=settings.accumulate,
        compile=settings.compile,
        autocast=_AUTOCAST.get(settings.precision or ""),
        memory_format=cast(MemoryFormat, settings.memory_format),
        metrics=session.metrics,
    )
    trainer.target_unit = None if session.dataset.scale is None else session.dataset.scale.deviation
    return trainer


def _facts(session: Session, trainer: Trainer) -> dict[str, Any]:
    """Collective. What is known before the first step."""
    return {
        "strategy": session.strategy,
        "device": session.device.type,
        "ranks": session.comm.size,
        "training_ranks": sum(session.comm.allgather_objects(trainer.worker.trains)),
        "threads": torch.get_num_threads(),
        "hosts": session.comm.allgather_objects(socket.gethostname()),
        **sample_facts(session),
    }


def _fit(
    session: Session, trainer: Trainer, voice: Voice, turns: Turns, **how: Any
) -> dict[str, Any]:
    """Collective. Train what is left, as `how` says; how long it all took, and what was sent."""
    settings, position = session.settings, trainer.position
    train, validation = training_samples(session)
    steps = batch_count(len(train), session.batch_size)
    steps = min(steps, settings.steps_per_epoch or steps)
    networks = Networks(voice.progress)
    stopping = Stopping(patience=settings.patience, goal=settings.goal, watch=settings.watch)
    sent, begun = _bytes_sent(session), position.step
    turns.begin()
    if trainer.survival is not None:
        trainer.survival.going_on(session.comm, begun)
    trainer.fit(
        train,
        epochs=settings.epochs - position.epoch,
        batch_size=session.batch_size,
        validation=validation,
        steps_per_epoch=steps,
        schedule=Schedule(trainer.optimizer, settings, steps_per_epoch=steps),
        stopping=stopping,
        keep_best=settings.keep_best,
        watch=settings.watch,
        progress=networks,
        on_epoch=lambda epoch: _note(session, voice.run, epoch, turns=turns, networks=networks),
        companions=[turns],
        **how,
    )
    sent = _bytes_sent(session) - sent
    return turns.facts() | {
        "epochs": position.epoch,
        "stopped": stopping.stopped,
        "stopping": stopping_of(settings),
        "bytes_per_step": sent / max(position.step - begun, 1) if session.profile else None,
    }


def _checkpoints(session: Session, folder: Path | None) -> Checkpoints | None:
    """Collective. Where checkpoints go, if any are wanted and can be written."""
    every = str(session.settings.checkpoint_every)
    if folder is None or every == "never":
        return None
    wanted = Checkpoints(folder / CHECKPOINTS, every=every, keep=session.settings.keep)
    refusal = obstacle(session.comm, Path(wanted.folder))
    if refusal is None:
        return wanted
    if session.is_first:
        log.warning("%s: the training goes on without", refusal)
    return None


def _note(
    session: Session, run: WrittenRun | None, epoch: Epoch, *, turns: Turns, networks: Networks
) -> None:
    """Collective. Write down what an epoch came to, for all ranks and for each."""
    turns.after_epoch(epoch)
    everyone = None
    if session.comm.size > 1:
        everyone = session.comm.gather_objects(networks.mine[-1])
    laps = None if session.profile is None else session.profile.lap()
    if run is not None:
        run.add_epoch(epoch.row(laps[0] if laps else {}))
        run.add_networks(epoch.number, network_rows(epoch.number, everyone or []))
        run.add_phases(epoch.number, phase_rows(epoch.number, laps or []))


def _bytes_sent(session: Session) -> int:
    return 0 if session.profile is None else session.profile.bytes_sent()


def _at_the_end(session: Session) -> dict[str, Any]:
    """Collective. What is known when all is done."""
    by_rank = session.comm.allgather_objects(memory_share())
    return {
        "memory_bytes": memory_of_host(session.comm),
        "memory_bytes_per_rank": max(by_rank),
        "memory_bytes_by_rank": by_rank,
        **device_memory(session.comm, session.device),
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
        with writing(settings.trace):
            session.profile.finish_trace()
