"""One call of `Trainer.fit`: epochs of global batches, and what goes on beside them."""

import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Protocol, final

from phalanx.clock import phase
from phalanx.data.batches import Batch, batch_count, batches
from phalanx.data.split import Split
from phalanx.errors import DivergedError
from phalanx.state import State
from phalanx.train.epoch import Epoch
from phalanx.train.progress import Progress, Silent
from phalanx.train.schedules import Schedule
from phalanx.train.stopping import BestWeights, Stopping

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
    train: Split
    batch_size: int
    steps_per_epoch: int | None = None
    validation: Split | None = None
    schedule: Schedule | None = None
    stopping: Stopping | None = None
    best: BestWeights | None = None
    progress: Progress = field(default_factory=Silent)
    on_epoch: Callable[[Epoch], None] | None = None

    @property
    def companions(self) -> list[Companion]:
        """What has a state of its own."""
        return [one for one in (self.schedule, self.stopping, self.best) if one is not None]

    def run(self, *, epochs: int, steps: int | None) -> list[Epoch]:
        """Collective. Train on, for so many epochs or steps, whichever is over first."""
        position = self.trainer.position
        done: list[Epoch] = []
        last = position.epoch + epochs
        limit = math.inf if steps is None else position.step + steps
        while position.epoch < last:
            if not self._train_epoch(last, limit=limit):
                return done  # in the middle of an epoch, which the next call goes on with
            epoch = self._finish_epoch()
            done.append(epoch)
            if self._is_last(epoch) or position.step >= limit:
                break
        if self.best is not None and done:
            self.trainer.use(self.best)
        return done

    def _steps(self) -> int:
        """The steps that are left of the epoch under way."""
        position = self.trainer.position
        left = batch_count(len(self.train) - position.samples, self.batch_size)
        if self.steps_per_epoch is None:
            return left
        return min(left, self.steps_per_epoch - position.step_in_epoch)

    def _train_epoch(self, last: int, *, limit: float) -> bool:
        """Train what is left of an epoch; whether that is all of it."""
        trainer, position = self.trainer, self.trainer.position
        steps = self._steps()
        self.progress.start(position.epoch + 1, last, steps=steps)
        trainer.begin_epoch()
        started, before = time.perf_counter(), position.seconds
        allowed = int(min(steps, limit - position.step))
        for batch in islice(self._batches(), allowed):
            with phase("step"):  # what is in no phase of its own
                outcome = trainer.step(batch)
                if self.schedule is not None:
                    self.schedule.after_step()
            with phase("metrics"):
                trainer.meter.add(outcome.loss, outcome.outputs, outcome.targets)
                position.seconds = before + time.perf_counter() - started
                self.progress.step(position.samples, trainer.meter)
        return allowed == steps

    def _batches(self) -> Iterator[Batch]:
        trainer, position = self.trainer, self.trainer.position
        with phase("load"):
            return batches(
                self.train,
                batch_size=self.batch_size,
                seed=trainer.seed,
                epoch=position.epoch,
                dtype=trainer.dtype,
                device=None if trainer.device.type == "cpu" else trainer.device,
                seen=position.samples,
                step=position.step,
            )

    def _finish_epoch(self) -> Epoch:
        """Collective. What the epoch came to; the position is behind it afterwards."""
        trainer, position = self.trainer, self.trainer.position
        started = time.perf_counter()
        with phase("exchange"):
            metrics = trainer.meter.total(trainer.comm)
        seconds = position.seconds + time.perf_counter() - started
        position.after_epoch()
        checked = None if self.validation is None else trainer.evaluate(self.validation)
        rate: float = trainer.optimizer.param_groups[0]["lr"]
        epoch = Epoch(position.epoch, metrics, checked, seconds, learning_rate=rate)
        self.progress.finish(epoch.train, epoch.validation, epoch.samples_per_second)
        return epoch

    def _is_last(self, epoch: Epoch) -> bool:
        """Collective. All that follows an epoch; whether it was the last one."""
        finite = math.isfinite(epoch.train.loss)
        if self.best is not None and finite:
            self.trainer.sync()
            self.best.offer(epoch, self.trainer.model)
        if self.schedule is not None and finite:
            self.schedule.after_epoch(epoch.watched.loss)
        reason = None if self.stopping is None or not finite else self.stopping.reason(epoch)
        if self.on_epoch is not None:  # behind all that a state would have to know of
            self.on_epoch(epoch)
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
