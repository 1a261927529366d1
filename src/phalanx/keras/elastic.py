"""Training with `fit` that starts again from its last commit when an operation fails.

As with `phalanx.horovod.torch.elastic`, all ranks go back and train on, without those that are lost
(`phalanx run --min-np`).
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, final

from phalanx.errors import UsageError
from phalanx.horovod.api import elastic
from phalanx.horovod.api.elastic import ObjectState, State
from phalanx.keras.bridge import cause_of
from phalanx.keras.callbacks import Logs
from phalanx.keras.presence import keras
from phalanx.keras.variables import broadcast_variables

__all__ = [
    "CommitStateCallback",
    "KerasState",
    "TensorFlowKerasState",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "run",
]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a training function whose first argument is a State.

    It is called with the state of rank 0 everywhere. When an operation fails in it, it is called
    again from the last commit, after a new start. An error that comes back is let through.
    """

    @wraps(func)
    def translated(state: State, *arguments: Any, **named: Any) -> Any:
        try:
            return func(state, *arguments, **named)
        except Exception as error:
            # Out of a compiled step comes the backend's error, which hides that of an operation.
            cause = cause_of(error)
            if cause is error:
                raise
            raise cause from error

    return elastic.run(translated)


@final
class KerasState(ObjectState):
    """A model, its optimizer, and plain objects such as `batch` and `epoch`."""

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        if not isinstance(model, keras.Model):
            raise UsageError(f"KerasState takes a Keras model, not {model!r}")
        if not model.built:
            raise UsageError(
                "KerasState takes a model that is built: call model.build(input_shape)"
            )
        self.model = model
        self.optimizer = optimizer or getattr(model, "optimizer", None)
        if not isinstance(self.optimizer, keras.optimizers.Optimizer | None):
            raise UsageError(f"KerasState takes a Keras optimizer, not {self.optimizer!r}")
        if self.optimizer is not None and not self.optimizer.built:
            self.optimizer.build(model.trainable_variables)
        super().__init__(**kwargs)
        self._keep()

    def save(self) -> None:
        self._keep()
        super().save()

    def restore(self) -> None:
        for variable, value in self._kept:
            variable.assign(value)
        super().restore()

    def sync(self) -> None:
        self._attach()
        own = [*self.model.weights, *(self.optimizer.variables if self.optimizer else ())]
        broadcast_variables(own, 0)
        self._keep()
        super().sync()

    def _attach(self) -> None:
        """On JAX a model has its weights again: within an epoch they are with the step."""
        if hasattr(self.model, "jax_state_sync"):
            self.model.jax_state_sync()

    def _keep(self) -> None:
        self._attach()
        variables = [*self.model.variables, *(self.optimizer.variables if self.optimizer else ())]
        self._kept = [(one, keras.ops.convert_to_numpy(one).copy()) for one in variables]


def TensorFlowKerasState(  # noqa: N802
    model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any
) -> KerasState:
    """A KerasState, by its name in `horovod.tensorflow.elastic`; `backend` was for TensorFlow 1."""
    if backend not in (None, keras.backend):
        raise UsageError("TensorFlowKerasState(backend=…) was for sessions of TensorFlow 1")
    return KerasState(model, optimizer, **kwargs)


@final
class CommitStateCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Commits a state after every `batches_per_commit` batches, and after every epoch."""

    def __init__(self, state: State, batches_per_commit: int = 1) -> None:
        super().__init__()
        _check(state)
        if batches_per_commit < 1:
            raise UsageError(f"batches_per_commit must be at least 1, not {batches_per_commit}")
        self.state = state
        self.batches_per_commit = batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs: Logs = None) -> None:
        self.batches_remaining = self.batches_per_commit

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.state.commit()
            self.batches_remaining = self.batches_per_commit

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.state.commit()


@final
class UpdateBatchStateCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Keeps `state.batch`, the number of the batch in its epoch; 0 again after an epoch.

    The first epoch after a new start is shorter by the batches that had been done.
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        _check(state, "batch")
        self.state = state
        self._first = 0
        self._ends = False

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._first = self.state.batch

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.state.batch = self._first + batch
        steps = (self.params or {}).get("steps")
        is_last = self._first and steps and self.state.batch + 1 >= steps
        if is_last and not self.model.stop_training:
            self._ends = self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.state.batch = 0
        if self._ends:  # the epoch, and not the training
            self._ends = self.model.stop_training = False


@final
class UpdateEpochStateCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Keeps `state.epoch`, the number of epochs done, whatever number a new start begins with."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        _check(state, "epoch")
        self.state = state
        self._offset: int | None = None

    def on_train_begin(self, logs: Logs = None) -> None:
        self._offset = None

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        if self._offset is None:
            self._offset = self.state.epoch - epoch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        assert self._offset is not None
        self.state.epoch = self._offset + epoch + 1


def _check(state: Any, name: str | None = None) -> None:
    if not isinstance(state, State):
        raise UsageError(f"this callback takes a state such as KerasState(model), not {state!r}")
    if name is not None and not isinstance(getattr(state, name, None), int):
        raise UsageError(
            f"this callback keeps state.{name}, which the state does not have: "
            f"KerasState(model, {name}=0)"
        )
