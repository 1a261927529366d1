"""Callbacks for `model.fit` on many ranks: the same weights, the same metrics, a sane start."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

from phalanx.errors import MismatchError, UsageError
from phalanx.horovod.api.basics import rank, size
from phalanx.horovod.api.functions import allgather_object
from phalanx.horovod.api.process_sets import ProcessSet, global_process_set
from phalanx.keras.local import LocalVariables
from phalanx.keras.presence import keras
from phalanx.keras.variables import broadcast_variables

Logs = dict[str, Any] | None
#: How the names of the files that Keras writes end.
_FILE_ENDINGS = (".keras", ".h5")
#: The learning rate's factor: what makes it of the epoch, or by how much it changes in each.
Multiplier = float | Callable[[float], float]


@final
class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Gives all ranks the root's weights and optimizer state before the first batch.

    A model that is not built until then gets them after its first batch. Variables given to
    `register_local_var` stay as they are.
    """

    def __init__(
        self, root_rank: int = 0, device: str = "", process_set: ProcessSet = global_process_set
    ) -> None:
        super().__init__()
        self.root_rank = root_rank
        self.process_set = process_set
        self.broadcast_done = False
        self._local = LocalVariables()

    def register_local_var(self, var: Any) -> None:
        """Let a variable be this rank's own: it is not broadcast."""
        self._local.add(var)

    def on_train_begin(self, logs: Logs = None) -> None:
        model = self.model
        if not model.built:
            return
        if not model.optimizer.built:  # its state must be there to be broadcast
            model.optimizer.build(model.trainable_variables)
        self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self._broadcast()

    def _broadcast(self) -> None:
        if not self.broadcast_done:
            model = self.model
            everything = [*model.weights, *model.optimizer.variables]
            local = self._local.among(everything)
            shared = [one for one, is_local in zip(everything, local, strict=True) if not is_local]
            broadcast_variables(shared, self.root_rank, self.process_set)
            self.broadcast_done = True


@final
class MetricAverageCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Averages an epoch's metrics over the ranks.

    Put it before those that look at metrics: ReduceLROnPlateau, EarlyStopping, checkpoints.
    """

    def __init__(self, device: str = "", process_set: ProcessSet = global_process_set) -> None:
        super().__init__()
        self.process_set = process_set

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if logs is None or self.process_set.size() == 1:
            return
        own = {name: float(value) for name, value in logs.items() if _is_number(value)}
        everyone = allgather_object(own, "metrics", self.process_set)
        for number, other in enumerate(everyone):
            if other.keys() != own.keys():
                raise MismatchError(
                    f"metrics: rank {self.process_set.ranks[number]} has {', '.join(other)}, rank "
                    f"{rank()} {', '.join(own)}; give all ranks the same metrics and validation"
                )
        for name in own:
            logs[name] = sum(one[name] for one in everyone) / len(everyone)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


class _Schedule(keras.callbacks.Callback, ABC):  # type: ignore[misc]
    """What both schedules do: set the learning rate to a multiple of the initial one."""

    def __init__(
        self, initial_lr: float, *, start: float, end: float | None, staircase: bool,
        momentum_correction: bool, steps_per_epoch: int | None,
    ) -> None:  # fmt: skip
        super().__init__()
        if initial_lr is None or initial_lr <= 0:
            raise UsageError(f"initial_lr must be a number above 0, not {initial_lr}")
        self.initial_lr = initial_lr
        self.start_epoch = start
        self.end_epoch = end
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0

    @abstractmethod
    def factor(self, epoch: float) -> float:
        """The multiple at a point in time: an epoch, or a fraction of one."""

    def on_train_begin(self, logs: Logs = None) -> None:
        if not self.staircase and self.steps_per_epoch is None:
            self.steps_per_epoch = (self.params or {}).get("steps")
            if not self.steps_per_epoch:
                raise UsageError(
                    "the number of batches an epoch is not known: give steps_per_epoch"
                )

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        if self.current_epoch < self.start_epoch:
            return
        if self.end_epoch is not None and self.current_epoch >= self.end_epoch:
            return
        if not self.staircase:
            assert self.steps_per_epoch is not None
            self._adjust(self.current_epoch + batch / self.steps_per_epoch)
        elif batch == 0:
            self._adjust(self.current_epoch)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if logs is not None:
            logs["lr"] = _learning_rate(self.model.optimizer)

    def _adjust(self, epoch: float) -> None:
        optimizer = self.model.optimizer
        before, after = _learning_rate(optimizer), self.initial_lr * self.factor(epoch)
        optimizer.learning_rate = after
        if self.momentum_correction and before > 0 and before != after:
            _scale_momentum(optimizer, after / before)


def _learning_rate(optimizer: Any) -> float:
    return float(keras.ops.convert_to_numpy(optimizer.learning_rate))


def _scale_momentum(optimizer: Any, ratio: float) -> None:
    """Have the momentum go on as if it had been gathered at the new learning rate.

    The option `momentum` is a constant of a compiled step, so what it is multiplied with changes.
    Only where momentum has the learning rate in it: SGD and RMSprop, not Adam and its kind.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if not getattr(inner, "momentum", 0.0) or not inner.built:
        return
    for name in ("momentums", "_momentums"):
        for variable in getattr(inner, name, ()):
            if variable is not None:
                variable.assign(keras.ops.multiply(variable, ratio))


@final
class LearningRateScheduleCallback(_Schedule):
    """Sets the learning rate to a multiple of `initial_lr` from `start_epoch` on.

    `multiplier` is a function of the epoch, or a number: exponential decay, by that much in every
    epoch after `start_epoch`. With `staircase=False` the epoch has fractions, batch by batch.
    """

    def __init__(
        self, initial_lr: float, multiplier: Multiplier, start_epoch: int = 0,
        end_epoch: int | None = None, staircase: bool = True, momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            initial_lr, start=start_epoch, end=end_epoch, staircase=staircase,
            momentum_correction=momentum_correction, steps_per_epoch=steps_per_epoch,
        )  # fmt: skip
        self.multiplier = multiplier

    def factor(self, epoch: float) -> float:
        if callable(self.multiplier):
            return self.multiplier(epoch)
        return float(self.multiplier ** (epoch - self.start_epoch))


@final
class LearningRateWarmupCallback(_Schedule):
    """Raises the learning rate from `initial_lr / size()` to `initial_lr` over the first epochs.

    `initial_lr` is the one scaled by the number of ranks, which large batches take only after a
    while (Goyal et al., 2017). With `warmup_epochs=0` it is left alone.
    """

    def __init__(
        self, initial_lr: float, warmup_epochs: int = 5, momentum_correction: bool = True,
        steps_per_epoch: int | None = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        if warmup_epochs < 0:
            raise UsageError(f"warmup_epochs must be at least 0, not {warmup_epochs}")
        super().__init__(
            initial_lr, start=0, end=warmup_epochs, staircase=False,
            momentum_correction=momentum_correction, steps_per_epoch=steps_per_epoch,
        )  # fmt: skip
        self.warmup_epochs = warmup_epochs
        self.verbose = verbose

    def factor(self, epoch: float) -> float:
        assert self.steps_per_epoch is not None
        done = (epoch + 1 / self.steps_per_epoch) / self.warmup_epochs  # 1 at the last batch
        return (1 + done * (size() - 1)) / size()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        super().on_epoch_end(epoch, logs)
        if epoch == self.warmup_epochs - 1 and self.verbose > 0 and rank() == 0:
            reached = _learning_rate(self.model.optimizer)
            print(f"\nEpoch {epoch + 1}: the learning rate is warmed up to {reached:g}.")


@final
class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):  # type: ignore[misc]
    """Keeps the best model so far, written by rank 0 alone.

    The ranks share a folder, or only rank 0 needs one. Behind a MetricAverageCallback "best" means
    best over all ranks. Takes the options of `keras.callbacks.ModelCheckpoint`. As with Horovod the
    first argument may be `monitor`, and `filepath` be set later.
    """

    def __init__(self, filepath: Any = None, monitor: str | None = None, **options: Any) -> None:
        if monitor is None and isinstance(filepath, str) and not filepath.endswith(_FILE_ENDINGS):
            filepath, monitor = None, filepath
        # Keras looks at the file's ending now: this one is right whatever is saved.
        path = "later.weights.h5" if filepath is None else filepath
        super().__init__(path, monitor or "val_loss", **{"save_best_only": True} | options)
        if filepath is None:
            self.filepath: str | None = None

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if rank() == 0:
            super().on_train_batch_end(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if rank() == 0:
            super().on_epoch_end(epoch, logs)

    def _save_model(self, *arguments: Any, **named: Any) -> None:
        if self.filepath is None:
            raise UsageError(
                f"BestModelCheckpoint(monitor='{self.monitor}') has no file to save the model in: "
                "give it filepath='best.keras', or set its attribute filepath before the training"
            )
        super()._save_model(*arguments, **named)
