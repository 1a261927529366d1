"""DistributedOptimizer: any torch optimizer, whose gradients are averaged over the ranks."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from phalanx.errors import UsageError
from phalanx.horovod.api.collectives import allreduce, grouped_allreduce
from phalanx.horovod.api.process_sets import ProcessSet, global_process_set
from phalanx.horovod.engine.compression import Compression
from phalanx.horovod.engine.exceptions import CallOrderError
from phalanx.horovod.engine.reductions import Adasum, Average, Sum, as_op
from phalanx.horovod.optimizer.attributes import HorovodAttributes
from phalanx.horovod.optimizer.options import Options
from phalanx.horovod.optimizer.wrapped import Wrapped

#: Horovod's own words, which tests of its clients look for.
_AVERAGED_TWICE = (
    "optimizer.step() called without optimizer.skip_synchronize() context after "
    "optimizer.synchronize(). This can cause training slowdown. You may want to consider using "
    "optimizer.skip_synchronize() context if you use optimizer.synchronize() in your code."
)


class DistributedMethods(HorovodAttributes):
    """What a wrapped optimizer does differently. Its class is this one and the wrapped one's."""

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
                warnings.warn(_AVERAGED_TWICE, stacklevel=2)
            self.synchronize()
        state.synchronized = False
        return super().step(closure)

    #: Keeps torch from running the hooks of `step` twice: the wrapped one's runs them.
    step.hooked = True  # type: ignore[attr-defined]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As torch's; refused while gradients are on their way."""
        if self._distributed.exchange.touched and not self._distributed.is_alone:
            raise CallOrderError(
                "optimizer.zero_grad() was called after loss.backward() but before "
                "optimizer.step() or optimizer.synchronize(). This is prohibited as it can cause "
                "a race condition: gradients are on their way to other ranks; call it after step()"
            )
        super().zero_grad(set_to_none)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch's; gradients that were on their way are forgotten."""
        super().load_state_dict(state_dict)
        state = self._distributed
        # torch has replaced what the two share, and schedulers may hold on to the wrapped one.
        state.wrapped.state, state.wrapped.param_groups = self.state, self.param_groups
        state.exchange.restart()

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
    op: int = Average,
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
    _check(optimizer, op, predivide=gradient_predivide_factor, process_set=process_set)
    names = _names(optimizer, named_parameters)
    options = Options(
        op=as_op(op),
        predivide=float(gradient_predivide_factor),
        compression=compression,
        groups=_groups(groups if groups is not None else num_groups, names),
        sparse_as_dense=sparse_as_dense,
        process_set=process_set,
    )
    distributed = _as_distributed(optimizer, Wrapped(optimizer, names, options))
    distributed.set_backward_passes_per_step(backward_passes_per_step)
    return distributed


def _check(optimizer: Optimizer, op: int, *, predivide: float, process_set: ProcessSet) -> None:
    """Refuse what cannot be."""
    if not isinstance(optimizer, Optimizer):
        raise UsageError(f"DistributedOptimizer takes a torch optimizer, not {optimizer!r}")
    if op not in (Average, Sum, Adasum):
        raise UsageError(
            f"DistributedOptimizer has op Average, Sum and Adasum, not {as_op(op).label}"
        )
    if predivide != 1.0 and op != Average:
        raise UsageError("gradient_predivide_factor is for op=hvd.Average alone")
    if op == Adasum and process_set is not global_process_set:
        raise UsageError("Adasum is for all ranks: leave process_set out")


def _as_distributed(optimizer: Optimizer, state: Wrapped) -> Any:
    """The same optimizer once more, of a class with `DistributedMethods`."""
    base = type(optimizer)
    # Clients tell one by its module: it is DistributedOptimizer's, and has "horovod" in it.
    made: Any = type(base.__name__, (DistributedMethods, base), {"__module__": __name__})
    distributed: Any = made.__new__(made)
    distributed.__dict__.update(optimizer.__dict__)
    distributed.__dict__.pop("step", None)  # a scheduler has put it there, around the other's
    distributed._distributed = state
    state.hook()
    return distributed


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
