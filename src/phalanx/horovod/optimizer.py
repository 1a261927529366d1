"""DistributedOptimizer: any torch optimizer, whose gradients are averaged over the ranks."""

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import blake2s
from operator import is_
from typing import Any, final

import torch
from torch import nn
from torch.optim import Optimizer

from phalanx.errors import UsageError
from phalanx.horovod import context
from phalanx.horovod.collectives import allreduce, grouped_allreduce
from phalanx.horovod.compression import Compression
from phalanx.horovod.exceptions import CallOrderError
from phalanx.horovod.exchange import GradientExchange
from phalanx.horovod.options import Options
from phalanx.horovod.process_sets import ProcessSet, global_process_set
from phalanx.horovod.reductions import Adasum, Average, ReduceOp, Sum


@final
class _State:
    """What a wrapped optimizer knows besides what it wraps."""

    def __init__(
        self, optimizer: Optimizer, names: dict[nn.Parameter, str], options: Options
    ) -> None:
        self.wrapped = optimizer
        self.names = names
        self.options = options
        self.should_synchronize = True
        self.synchronized = False
        self.hooked: set[nn.Parameter] = set()
        self._seen: context.Context | None = None
        self._alone = True
        self._everyone = self._parameters()
        self._outside = [p for p in self._everyone if not p.requires_grad]
        family = _family([self.name_of(parameter) for parameter in self._everyone])
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
            if parameter not in self.hooked and self.options.op is not Adasum:
                self.hooked.add(parameter)
                arrived = partial(_arrived, weakref.ref(self))
                parameter.register_post_accumulate_grad_hook(arrived)  # type: ignore[no-untyped-call]


def _arrived(reference: "weakref.ref[_State]", parameter: nn.Parameter) -> None:
    """A parameter has got a gradient. An optimizer that was thrown away takes no notice."""
    state = reference()
    if state is not None and not state.is_alone:
        state.refresh()
        index = state.exchange.index.get(parameter)
        if index is not None:
            state.exchange.arrived(index)


class DistributedMethods(Optimizer):
    """What a wrapped optimizer does differently. Its class is this one and the wrapped one's."""

    _distributed: _State

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Expect so many backward passes before each step."""
        if passes < 1:
            raise UsageError(f"backward_passes_per_step must be at least 1, not {passes}")
        exchange = self._distributed.exchange
        exchange.passes = passes
        exchange.restart()

    def synchronize(self) -> None:
        """Collective. Wait until all gradients are averaged; `step` then need not, see
        `skip_synchronize`."""
        state = self._distributed
        if state.options.op is not Adasum and not state.is_alone:
            state.refresh()
            with torch.no_grad():
                state.exchange.finish()
        state.synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Inside, `step` takes the gradients as they are, for after `synchronize`."""
        self._distributed.should_synchronize = False
        try:
            yield
        finally:
            self._distributed.should_synchronize = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Collective. Average the gradients, and step."""
        state = self._distributed
        state.wrapped._opt_called = True  # type: ignore[attr-defined]  # schedulers look there
        if state.options.op is Adasum and not state.is_alone:
            return self._step_by_adasum(closure)
        if closure is not None and state.should_synchronize:
            if state.exchange.touched:
                self.synchronize()
            state.synchronized = False
            return super().step(lambda: self._evaluate(closure))
        if state.should_synchronize:
            if state.synchronized:
                warnings.warn(
                    "step() after synchronize() averages once more; put it in "
                    "`with optimizer.skip_synchronize():`",
                    stacklevel=2,
                )
            self.synchronize()
        state.synchronized = False
        return super().step(closure)

    #: Keeps torch from running the hooks of `step` twice: the wrapped one's runs them.
    step.hooked = True  # type: ignore[attr-defined]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As torch's; refused while gradients are on their way."""
        if self._distributed.exchange.touched and not self._distributed.is_alone:
            raise CallOrderError(
                "zero_grad() after a backward pass, but before step() or synchronize(): gradients "
                "are on their way to other ranks; call it after step()"
            )
        super().zero_grad(set_to_none)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch's; gradients that were on their way are forgotten."""
        super().load_state_dict(state_dict)
        state = self._distributed
        # torch has replaced what the two share, and schedulers may hold on to the wrapped one.
        state.wrapped.state, state.wrapped.param_groups = self.state, self.param_groups
        state.exchange.restart()

    @property
    def backward_passes_per_step(self) -> int:
        """How many backward passes are expected before each step."""
        return self._distributed.exchange.passes

    @property
    def op(self) -> ReduceOp:
        """How gradients are combined."""
        return self._distributed.options.op

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As torch's; the ranks agree on the new parameters at the next step."""
        super().add_param_group(param_group)
        if "_distributed" in self.__dict__:
            self._distributed.refresh()

    def _evaluate(self, closure: Callable[[], Any]) -> Any:
        """A closure's loss, with averaged gradients; for a line search, averaged itself."""
        with torch.enable_grad():
            loss = closure()
        self.synchronize()
        self._distributed.synchronized = False
        if self._distributed.is_alone or not isinstance(self, torch.optim.LBFGS):
            return loss
        where = self._distributed.options.process_set
        return allreduce(torch.as_tensor(loss).detach(), process_set=where)

    def _step_by_adasum(self, closure: Callable[[], Any] | None) -> Any:
        """Step on this rank's own gradients, and combine how far the parameters have moved."""
        state = self._distributed
        # By name: ranks may have them in another order.
        parameters = [one for _, one in sorted(state.trainable(), key=lambda named: named[0])]
        before = [parameter.detach().clone() for parameter in parameters]
        result = super().step(closure)
        with torch.no_grad():
            moved = [p.detach() - start for p, start in zip(parameters, before, strict=True)]
            combined = grouped_allreduce(moved, name=f"{state.title}.moved", op=Adasum)
            for parameter, start, move in zip(parameters, before, combined, strict=True):
                parameter.copy_(start + move)
        return result


def DistributedOptimizer(  # noqa: N802
    optimizer: Optimizer,
    named_parameters: Iterable[tuple[str, nn.Parameter]] | None = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Sequence[Sequence[nn.Parameter]] | int | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The optimizer, whose `step` first averages gradients over the ranks.

    It is of a subclass of the optimizer's own class, and shares its parameter groups and state. The
    exchange begins during the backward pass. Afterwards `.grad` holds the averages; its memory is
    used again in the next step, so clone what should stay.
    """
    if not isinstance(optimizer, Optimizer):
        raise UsageError(f"DistributedOptimizer takes a torch optimizer, not {optimizer!r}")
    if op not in (Average, Sum, Adasum):
        raise UsageError(f"DistributedOptimizer has op Average, Sum and Adasum, not {op}")
    if gradient_predivide_factor != 1.0 and op is not Average:
        raise UsageError("gradient_predivide_factor is for op=hvd.Average alone")
    if op is Adasum and process_set is not global_process_set:
        raise UsageError("Adasum is for all ranks: leave process_set out")
    names = _names(optimizer, named_parameters)
    options = Options(
        op=op,
        predivide=float(gradient_predivide_factor),
        compression=compression,
        groups=_groups(groups if groups is not None else num_groups, names),
        sparse_as_dense=sparse_as_dense,
        process_set=process_set,
    )
    base = type(optimizer)
    made: Any = type(base.__name__, (DistributedMethods, base), {"__module__": base.__module__})
    wrapped: Any = made.__new__(made)
    wrapped.__dict__.update(optimizer.__dict__)
    wrapped.__dict__.pop("step", None)  # a scheduler has put it there, around the wrapped one's
    wrapped._distributed = _State(optimizer, names, options)
    wrapped._distributed.hook()
    wrapped.set_backward_passes_per_step(backward_passes_per_step)
    return wrapped


def _names(
    optimizer: Optimizer, named: Iterable[tuple[str, nn.Parameter]] | None
) -> dict[nn.Parameter, str]:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if named is None:
        return {parameter: f"parameter.{i}" for i, parameter in enumerate(parameters)}
    pairs = list(named)
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise UsageError("named_parameters are (name, parameter) pairs: model.named_parameters()")
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"named_parameters has these names more than once: {', '.join(twice)}")
    found = {parameter: name for name, parameter in pairs}
    unnamed = sum(parameter not in found for parameter in parameters)
    if unnamed:
        raise UsageError(
            f"named_parameters lacks {unnamed} of the optimizer's {len(parameters)} parameters: "
            "give model.named_parameters() of the whole model, or leave it out"
        )
    return found


def _family(names: list[str]) -> str:
    """What optimizers of such parameters are called, whatever order a rank has them in."""
    digest = blake2s("\n".join(sorted(names)).encode(), digest_size=4).hexdigest()
    return f"DistributedOptimizer.{digest}"


def _groups(
    groups: Sequence[Sequence[nn.Parameter]] | int, names: dict[nn.Parameter, str]
) -> tuple[tuple[str, ...], ...]:
    """Names that go together."""
    everyone = [name for parameter, name in names.items() if parameter.requires_grad]
    if isinstance(groups, int):
        if groups < 0:
            raise UsageError(f"the number of groups must not be negative, as {groups} is")
        if not groups:
            return ()
        size = -(-len(everyone) // groups)
        return tuple(tuple(everyone[i : i + size]) for i in range(0, len(everyone), size))
    if any(parameter not in names for group in groups for parameter in group):
        raise UsageError("groups has a parameter that is not the optimizer's")
    listed = [parameter for group in groups for parameter in group]
    if len(set(listed)) < len(listed):
        raise UsageError("a parameter can only appear once in groups")
    return tuple(tuple(names[parameter] for parameter in group) for group in groups)
