"""Training that starts again from its last commit when an operation fails, or a rank is lost.

All ranks see the failure of an operation, go back to their last commit, and train on. Where the
launcher lets them (`phalanx run --min-np`), they do so without a rank that is lost. None is added.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any, final

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from phalanx.horovod.api.functions import (
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from phalanx.horovod.api.new_start import NewStarts
from phalanx.horovod.api.sampler import ElasticSampler
from phalanx.horovod.engine.exceptions import HorovodInternalError, HostsUpdatedInterrupt

__all__ = ["ElasticSampler", "ObjectState", "State", "TorchState", "run"]

#: Failures in a row after which an error is let through: no commit between them, and nobody lost.
_MOST_FAILURES = 3


class State(ABC):
    """What training needs to go on: it can be saved, restored, and made the same on all ranks."""

    def __init__(self) -> None:
        self._reset_callbacks: list[Callable[[], None]] = []
        self.commits = 0

    def register_reset_callbacks(self, callbacks: list[Callable[[], None]]) -> None:
        """Call these after every new start, for what depends on the number of ranks."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """There has been a new start."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Save the state as the one to go back to."""
        self.save()
        self.commits += 1
        self.check_host_updates()

    def check_host_updates(self) -> None:  # noqa: B027
        """Would interrupt training when hosts come; they do not. Who goes is noticed without it."""

    def reset(self) -> None:  # noqa: B027
        """Adapt to a new number of ranks."""

    @abstractmethod
    def save(self) -> None:
        """Keep a copy in memory."""

    @abstractmethod
    def restore(self) -> None:
        """Go back to the copy."""

    @abstractmethod
    def sync(self) -> None:
        """Collective. Take over the state of rank 0."""


class ObjectState(State):
    """Attributes that are plain objects."""

    def __init__(
        self,
        bcast_object: Callable[..., Any] | None = None,
        get_rank: Callable[[], int] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self._broadcast = bcast_object or broadcast_object
        self._saved = kwargs
        for name, value in kwargs.items():
            setattr(self, name, value)
        self._saved = copy.deepcopy(kwargs)

    def save(self) -> None:
        self._saved = {name: copy.deepcopy(getattr(self, name)) for name in self._saved}

    def restore(self) -> None:
        for name, value in self._saved.items():
            setattr(self, name, copy.deepcopy(value))

    def sync(self) -> None:
        if self._saved:
            current = {name: getattr(self, name) for name in self._saved}
            for name, value in self._broadcast(current).items():
                setattr(self, name, value)
            ObjectState.save(self)


@final
class TorchState(ObjectState):
    """Models, optimizers, schedulers, elastic samplers and plain objects."""

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        given = {"model": model, "optimizer": optimizer, **kwargs}
        self._stateful = {name: one for name, one in given.items() if _has_state(one)}
        plain = {name: one for name, one in given.items() if name not in self._stateful}
        for name in ("model", "optimizer"):
            if plain.get(name, 0) is None:
                del plain[name]
                object.__setattr__(self, name, None)
        super().__init__(**plain)
        for name, one in self._stateful.items():
            object.__setattr__(self, name, one)
        self._kept = {n: copy.deepcopy(one.state_dict()) for n, one in self._stateful.items()}

    def save(self) -> None:
        self._kept = {n: copy.deepcopy(one.state_dict()) for n, one in self._stateful.items()}
        super().save()

    def restore(self) -> None:
        for name, one in self._stateful.items():
            one.load_state_dict(copy.deepcopy(self._kept[name]))
        super().restore()

    def sync(self) -> None:
        for one in self._stateful.values():
            if isinstance(one, nn.Module):
                broadcast_parameters(one.state_dict())
            elif isinstance(one, Optimizer):
                broadcast_optimizer_state(one, 0)
            else:
                one.load_state_dict(broadcast_object(one.state_dict()))
        super().sync()
        self.save()

    def reset(self) -> None:
        for one in self._stateful.values():
            if isinstance(one, ElasticSampler):
                one.load_state_dict(one.state_dict())

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in self.__dict__.get("_stateful", {}) and _has_state(value):
            self._stateful[name] = value
            self._kept[name] = copy.deepcopy(value.state_dict())


def run(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a training function whose first argument is a State.

    It is called with the state of rank 0 everywhere. When an operation fails in it, it is called
    again from the last commit, after a new start. An error that comes back is let through.
    """

    @wraps(function)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        new_starts = NewStarts()
        failures, commits = 0, state.commits
        is_new = skip_sync = False
        while True:
            try:
                if is_new:
                    state.on_reset()
                if not skip_sync:
                    state.sync()
                result = function(state, *args, **kwargs)
                new_starts.wait_for_all()
                return result
            except HorovodInternalError:
                failures = failures + 1 if state.commits == commits else 1
                commits, skip_sync = state.commits, False
                if failures >= _MOST_FAILURES:
                    raise
                state.restore()
            except HostsUpdatedInterrupt as interrupt:
                skip_sync = interrupt.skip_sync
            if new_starts.start_again():
                failures = 0
            is_new = True

    return wrapper


def _has_state(value: object) -> bool:
    return isinstance(value, nn.Module | Optimizer | LRScheduler | ElasticSampler)
