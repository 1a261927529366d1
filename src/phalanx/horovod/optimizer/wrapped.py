"""What a DistributedOptimizer knows of the optimizer that it wraps: its parameters, by name, and
how their gradients travel."""

import weakref
from functools import partial
from operator import is_
from typing import Any, final

from torch import nn
from torch.optim import Optimizer

from phalanx.horovod.engine import context
from phalanx.horovod.engine.reductions import Adasum
from phalanx.horovod.optimizer.gradient_exchange import GradientExchange
from phalanx.horovod.optimizer.naming import family_of
from phalanx.horovod.optimizer.options import Options


@final
class Wrapped:
    """An optimizer, and what its DistributedOptimizer knows besides."""

    def __init__(
        self, optimizer: Optimizer, names: dict[nn.Parameter, str], options: Options
    ) -> None:
        self.wrapped = optimizer
        self.names = names
        self.options = options
        self.should_synchronize = True
        self.synchronized = False
        self._hooks: dict[nn.Parameter, Any] = {}
        #: Has parameters leave this alone from now on, at the latest when it is thrown away.
        self.close = weakref.finalize(self, _remove, self._hooks)
        self.close.atexit = False
        self._seen: context.Context | None = None
        self._alone = True
        self._everyone = self._parameters()
        self._outside = [p for p in self._everyone if not p.requires_grad]
        family = family_of(self.name_of(parameter) for parameter in self._everyone)
        self.exchange = GradientExchange(family, self.trainable(), options)

    @property
    def is_alone(self) -> bool:
        """Whether there is nobody to exchange with."""
        now = context.current()
        if now is not self._seen:  # every hook asks, so the answer is kept until the next init
            where = self.options.process_set
            self._seen = now
            self._alone = not where.included() or where.size() == 1
        return self._alone

    @property
    def title(self) -> str:
        """The name that all ranks know it by."""
        return self.exchange.title(self.options.process_set.engine())

    def trainable(self) -> list[tuple[str, nn.Parameter]]:
        """The parameters that get gradients, in their order, named."""
        return [(self.name_of(p), p) for p in self._parameters() if p.requires_grad]

    def name_of(self, parameter: nn.Parameter) -> str:
        """A parameter's name; one that was added without gets one now."""
        return self.names.setdefault(parameter, f"parameter.{len(self.names)}")

    def _parameters(self) -> list[nn.Parameter]:
        return [p for group in self.wrapped.param_groups for p in group["params"]]

    def refresh(self) -> None:
        """Take in parameters that were added, removed or set free since, unless it is too late.

        One that is frozen after the ranks have agreed stays: a rank that freezes it alone would
        otherwise exchange other things than the rest.
        """
        exchange = self.exchange
        if exchange.touched:
            return
        now, before = self._parameters(), self._everyone
        known = len(now) == len(before) and all(map(is_, now, before)) and exchange.is_open
        if known and exchange.fits and not any([p.requires_grad for p in self._outside]):
            return
        staying = exchange.index if known else {}
        taken = [p for p in now if p.requires_grad or p in staying]
        exchange.take([(self.name_of(parameter), parameter) for parameter in taken])
        self._everyone = now
        self._outside = [p for p in now if p not in exchange.index]
        self.hook()

    def hook(self) -> None:
        """Have the exchange hear of every gradient."""
        for parameter in self.exchange.parameters:
            if parameter not in self._hooks and self.options.op is not Adasum:
                arrived = partial(_arrived, weakref.ref(self))
                hook = parameter.register_post_accumulate_grad_hook(arrived)  # type: ignore[no-untyped-call]
                self._hooks[parameter] = hook


def _remove(hooks: dict[nn.Parameter, Any]) -> None:
    for hook in hooks.values():
        hook.remove()
    hooks.clear()


def _arrived(reference: "weakref.ref[Wrapped]", parameter: nn.Parameter) -> None:
    """A parameter has got a gradient."""
    state = reference()
    if state is not None and not state.is_alone:
        state.refresh()
        index = state.exchange.index.get(parameter)
        if index is not None:
            state.exchange.arrived(index)
