"""One call of `Trainer.fit`: epochs of global batches, and what goes on beside them."""

import logging
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, final

from phalanx.clock import phase
from phalanx.data.batches import Batch, batch_count, batches
from phalanx.data.own.stream import Stream
from phalanx.errors import DivergedError
from phalanx.state import State
from phalanx.train.checkpointing import Checkpointing, Checkpoints, checkpointing
from phalanx.train.checks.agreement import (
    agree,
    agreed,
    facts_of_samples,
    facts_of_training,
    weights_fingerprint,
)
from phalanx.train.checks.arguments import check_length, check_whole
from phalanx.train.checks.single_samples import check_parts
from phalanx.train.companions.callbacks import Hooks
from phalanx.train.companions.schedules import Schedule
from phalanx.train.companions.stopping import BestWeights, Stopping
from phalanx.train.companions.torch_schedules import TorchSchedule
from phalanx.train.epoch import Epoch
from phalanx.train.interruption.stop_request import Asked, StopRequest
from phalanx.train.methods.moving import check_unchanged, take_along
from phalanx.train.progress import Progress, Silent
from phalanx.train.samples import Source, read_beside

if TYPE_CHECKING:
    from phalanx.train.trainer import Trainer

log = logging.getLogger("phalanx.train")


class Companion(Protocol):
    """What goes along with a training and has a state of its own: a schedule, for one."""

    def state(self) -> State:
        """Where it is."""

    def load(self, state: State) -> None:
        """Go on from there, if the state says anything of it."""


@final
@dataclass(frozen=True, kw_only=True)
class FitLoop:
    """What to train on, and who takes part in it."""

    trainer: "Trainer"
    train: Source
    batch_size: int
    steps_per_epoch: int | None = None
    #: Processes that read samples for this rank.
    workers: int = 0
    validation: Source | None = None
    schedule: Schedule | TorchSchedule | None = None
    stopping: Stopping | None = None
    best: BestWeights | None = None
    #: What a plateau of the schedule is one of.
    watch: str = "loss"
    #: What else goes along.
    others: Sequence[Companion] = ()
    progress: Progress = field(default_factory=Silent)
    hooks: Hooks = field(default_factory=Hooks)

    @property
    def companions(self) -> list[Companion]:
        """What has a state of its own."""
        ours = (self.schedule, self.stopping, self.best)
        return [*(one for one in ours if one is not None), *self.hooks.callbacks, *self.others]

    def run(
        self,
        *,
        epochs: int,
        steps: int | None,
        checkpoint: Checkpoints | Path | str | None,
        stop: Asked | None,
    ) -> list[Epoch]:
        """Collective. Train on, for so many epochs or steps, whichever is over first."""
        self._check(epochs, steps, stop=stop)
        take_along(self.trainer, self.companions)
        request, survival = StopRequest(stop), self.trainer.survival
        self.hooks.begin(self.trainer)
        with (
            read_beside(self.train, self.validation, workers=self.workers) as (train, validation),
            checkpointing(
                self.trainer.comm,
                checkpoint,
                survival=survival,
                in_parts=self.trainer.worker.model_parts is not None,
            ) as writing,
        ):
            loop = replace(self, train=train, validation=validation)
            done = loop._run(epochs, steps, writing, request)
        self.trainer.stopped = request.why
        self.hooks.end(self.trainer)
        self.trainer.worker.lend()
        return done

    def _run(
        self, epochs: int, steps: int | None, writing: Checkpointing, request: StopRequest
    ) -> list[Epoch]:
        position = self.trainer.position
        done: list[Epoch] = []
        last = position.epoch + epochs
        limit = math.inf if steps is None else position.step + steps
        while position.epoch < last and not self._is_stopped():
            if not self._train_epoch(last, limit=limit, writing=writing, request=request):
                break  # in the middle of an epoch, which the next call goes on with
            epoch = self._finish_epoch()
            done.append(epoch)
            if self._is_last(epoch, writing) or position.step >= limit:
                break
        self.progress.end()
        stopped = request.at_the_end(self.trainer.comm, position.step)
        writing.finish(self.trainer)  # before others than the last weights are taken
        whole = not position.inside_epoch and not stopped
        if self.best is not None and self.best.epoch and whole:
            self._use(self.best)
        return done

    def _is_stopped(self) -> bool:
        """Whether the training that is gone on with had come to its end already."""
        if self.stopping is None or self.trainer.position.inside_epoch:
            return False
        return self.stopping.stopped is not None

    def _use(self, best: BestWeights) -> None:
        """Collective. Go back to the best weights."""
        trainer = self.trainer
        trainer.sync()
        trainer.comm.barrier()  # before and after: ranks may share the memory of the weights
        best.restore(trainer.model)
        trainer.comm.barrier()
        trainer.restored = True
        if trainer.comm.rank == 0:
            log.info("these are the weights of epoch %d", best.epoch)

    def _check(self, epochs: int, steps: int | None, *, stop: Asked | None) -> None:
        """Collective. Refuse what cannot be meant, and what ranks bring differently."""
        trainer = self.trainer
        check_unchanged(trainer)
        check_length(epochs=epochs, steps=steps, steps_per_epoch=self.steps_per_epoch)
        check_whole(batch_size=self.batch_size)
        facts = {
            "batch_size": self.batch_size,
            "epochs": epochs,
            "steps": steps,
            "steps_per_epoch": self.steps_per_epoch,
            "stop": stop is not None,
            "companions": [type(one).__name__ for one in self.companions],
            **facts_of_samples(self.train, "training"),
            **facts_of_samples(self.validation, "validation"),
            **facts_of_training(trainer.position, trainer.optimizer),
        }
        if trainer.worker.replicates:
            facts["weights with the fingerprint"] = weights_fingerprint(trainer.model)
        agree(trainer.comm, "fit", facts)
        batch_count(1, self.batch_size)
        if isinstance(self.train, Stream):
            return
        most = math.inf if self.steps_per_epoch is None else self.steps_per_epoch
        check_parts(
            trainer.model,
            self.train,
            seen=int(min(len(self.train), most * self.batch_size)),
            batch_size=self.batch_size,
            parts=trainer.batch_parts,
            dtype=trainer.dtype,
        )

    def _steps(self) -> float:
        """The steps that are left of the epoch under way, as far as anybody knows."""
        position = self.trainer.position
        left: float = math.inf
        if not isinstance(self.train, Stream):
            left = batch_count(len(self.train) - position.samples, self.batch_size)
        if self.steps_per_epoch is None:
            return left
        return min(left, self.steps_per_epoch - position.step_in_epoch)

    def _train_epoch(
        self, last: int, *, limit: float, writing: Checkpointing, request: StopRequest
    ) -> bool:
        """Train what is left of an epoch; whether it came to its end, and nobody asks to stop."""
        trainer, position = self.trainer, self.trainer.position
        steps = self._steps()
        self.progress.start(position.epoch + 1, last, steps=int(steps) if steps < math.inf else 0)
        self.hooks.before_epoch(trainer)
        trainer.begin_epoch()
        started, before, seen = time.perf_counter(), position.seconds, position.samples
        allowed = min(steps, limit - position.step)
        first = position.step
        for batch in self._batches(allowed):
            self.hooks.before_step(trainer)
            with phase("step"):  # what is in no phase of its own
                outcome = trainer.step(batch)
                if self.schedule is not None:
                    self.schedule.after_step()
            with phase("metrics"):
                trainer.meter.add_outcome(outcome)
                trainer.measures.add(outcome)
                position.seconds = before + time.perf_counter() - started
                self.progress.step(position.samples - seen, trainer.meter)
            self.hooks.after_step(trainer, outcome)
            writing.after_step(trainer)
            if request.after_step(trainer.comm, position.step):
                return False
        # Of samples that come one after the other nobody knows before that these were the last.
        return allowed == steps or position.step - first < allowed

    def _batches(self, most: float) -> Iterator[Batch]:
        trainer, position = self.trainer, self.trainer.position
        device = None if trainer.device.type == "cpu" else trainer.device
        if isinstance(self.train, Stream):
            stream = self.train.batches(
                batch_size=self.batch_size,
                seed=trainer.seed,
                epoch=position.epoch,
                device=device,
                seen=position.samples,
                step=position.step,
            )
            found = agreed(trainer.comm, stream, "fit")
            return islice(found, int(most) if most < math.inf else None)
        with phase("load"):
            return batches(
                self.train,
                batch_size=self.batch_size,
                seed=trainer.seed,
                epoch=position.epoch,
                dtype=trainer.dtype,
                device=device,
                seen=position.samples,
                step=position.step,
                most=most,
            )

    def _finish_epoch(self) -> Epoch:
        """Collective. What the epoch came to; the position is behind it afterwards."""
        trainer, position = self.trainer, self.trainer.position
        started = time.perf_counter()
        with phase("exchange"):
            metrics = trainer.meter.total(trainer.comm)
            metrics.more.update(trainer.measures.total(trainer.comm))
        seconds = position.seconds + time.perf_counter() - started
        position.after_epoch()
        checked = None if self.validation is None else trainer.evaluate(self.validation)
        rate: float = trainer.optimizer.param_groups[0]["lr"]
        epoch = Epoch(position.epoch, metrics, checked, seconds, learning_rate=rate)
        self.progress.finish(epoch.train, epoch.validation, epoch.samples_per_second)
        return epoch

    def _is_last(self, epoch: Epoch, writing: Checkpointing) -> bool:
        """Collective. All that follows an epoch; whether it was the last one."""
        finite = math.isfinite(epoch.train.loss)
        if self.best is not None and finite:
            self.trainer.sync()
            self.best.offer(epoch, self.trainer.model)
        if self.schedule is not None and finite:
            self.schedule.after_epoch(epoch.value(self.watch))
        reason = None if self.stopping is None or not finite else self.stopping.reason(epoch)
        self.hooks.after_epoch(self.trainer, epoch)
        if finite:
            writing.after_epoch(self.trainer)
        if reason is not None or not finite:
            self.progress.end()
        if not finite:
            return self._end_diverged(epoch)
        if reason is not None and self.trainer.comm.rank == 0:
            log.info("stopped after epoch %d: %s", epoch.number, reason)
        return reason is not None

    def _end_diverged(self, epoch: Epoch) -> bool:
        """End a training that has gone wrong: with the best weights there were, or an error."""
        what = f"the loss of epoch {epoch.number} is {epoch.train.loss}"
        if self.best is None or self.best.epoch == 0:
            raise DivergedError(
                f"{what}: the training has diverged at a learning rate of "
                f"{epoch.learning_rate:g}; lower it, clip gradients (--clip-norm), or look for "
                "values in the data that are no numbers"
            )
        if self.trainer.comm.rank == 0:
            log.warning("stopped after epoch %d: %s", epoch.number, what)
        return True
