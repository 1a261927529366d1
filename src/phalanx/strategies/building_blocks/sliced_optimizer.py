"""An optimizer that steps one slice of flat storage: its state exists for that slice alone."""

import weakref
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.optim import (
    ASGD,
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    NAdam,
    Optimizer,
    RAdam,
    RMSprop,
    Rprop,
)

from phalanx.errors import UsageError
from phalanx.exchange.flat import FlatBlock
from phalanx.exchange.views import dense_strides
from phalanx.state import Slice, State
from phalanx.state.optimizer import (
    SCALARS,
    entries_by_parameter,
    place_counters,
    put_entry,
    read_groups,
    write_groups,
)
from phalanx.state.parts import elements, memory_order
from phalanx.strategies.building_blocks.in_pieces import (
    check_step,
    end_guard,
    guard,
    is_in_pieces,
    mark_in_pieces,
    mark_whole,
)

#: Optimizers that treat each element by itself, so that a slice can be stepped without the rest.
ELEMENTWISE: tuple[type[Optimizer], ...] = (
    SGD,
    Adam,
    AdamW,
    NAdam,
    RAdam,
    RMSprop,
    Adagrad,
    Adadelta,
    Adamax,
    ASGD,
    Rprop,
)
#: Another class says that it treats elements so by an attribute of this name, and itself: what is
#: derived from it may do anything again.
STEPS_ELEMENTS = "steps_elements"
#: One that computes what another does names that other class so.
SAME_AS = "same_as"


def is_elementwise(optimizer: Optimizer) -> bool:
    """Whether the optimizer can step a slice; a subclass may do anything, and so cannot."""
    return steps_elements(type(optimizer))


def steps_elements(kind: type[Optimizer]) -> bool:
    """The same of a class."""
    return computes_as(kind) in ELEMENTWISE or bool(vars(kind).get(STEPS_ELEMENTS))


def computes_as(kind: type[Optimizer]) -> type[Optimizer]:
    """The class of optimizers that this one computes as: mostly itself."""
    found: type[Optimizer] = vars(kind).get(SAME_AS, kind)
    return found


def check_elementwise(optimizer: Optimizer, *, strategy: str) -> None:
    """Refuse an optimizer that needs a whole parameter, or all of them, to step."""
    if not is_elementwise(optimizer):
        names = ", ".join(kind.__name__ for kind in ELEMENTWISE)
        raise UsageError(
            f"strategy '{strategy}' steps pieces of parameters, which {type(optimizer).__name__} "
            f"cannot do; strategies 'single' and 'allreduce' take every optimizer, '{strategy}' "
            f"takes {names}"
        )


def hung_on(optimizer: Optimizer) -> str | None:
    """What of a user's own goes along with the steps of this very optimizer, if there is any."""
    for name, hooks in (
        ("register_step_pre_hook", optimizer._optimizer_step_pre_hooks),
        ("register_step_post_hook", optimizer._optimizer_step_post_hooks),
    ):
        if any(hook is not check_step for hook in hooks.values()):
            return f"a hook of {name}()"
    step = vars(optimizer).get("step")
    # torch's schedulers put a wrapper around the step, to count it.
    if step is not None and getattr(step, "__wrapped__", None) is not type(optimizer).step:
        return "a step() of its own"
    return None


def check_nothing_hung_on(optimizer: Optimizer, *, strategy: str) -> None:
    """Refuse what would never be called, since other optimizers step in this one's place."""
    found = hung_on(optimizer)
    if found is not None:
        raise UsageError(
            f"the optimizer has {found}, which strategy '{strategy}' would never call: it steps "
            "slices of parameters with optimizers of its own. Take strategy 'allreduce', or a "
            "phalanx.Callback with on_step_end"
        )


class SlicedOptimizer:
    """The user's optimizer, made again over the pieces of parameters that lie in a slice.

    Hyper-parameters are read from the user's optimizer at every step, so that schedulers work. Its
    state is taken over, also when it is loaded later; what becomes of it is in pieces on all ranks,
    of which `state` says what they are.
    """

    def __init__(self, optimizer: Optimizer, blocks: list[tuple[FlatBlock, slice]]) -> None:
        self._source = optimizer
        self._all_have_gradients = False
        self._pieces: list[tuple[int, int, Tensor, Tensor]] = []
        self._places: list[tuple[nn.Parameter, slice, Tensor]] = []
        groups: list[dict[str, Any]] = [
            {**_options(group), "params": []} for group in optimizer.param_groups
        ]
        self._group_of = group_of = {
            parameter: number
            for number, group in enumerate(optimizer.param_groups)
            for parameter in group["params"]
        }
        for number, (block, slice_) in enumerate(blocks):
            for index, parameter in enumerate(block.layout.parameters):
                piece = _piece(block, index, slice_)
                if piece is None or parameter not in group_of:
                    continue
                where, value, gradient = piece
                self._pieces.append((number, index, value, gradient))
                groups[group_of[parameter]]["params"].append(value)
                self._places.append((parameter, where, value))
        self._optimizer = _remake(optimizer, groups)
        self._take_state()
        this = weakref.ref(self)  # the user's optimizer may outlive this one

        def take_state(_: Optimizer) -> None:
            if (one := this()) is not None:
                one._take_state()

        self._loading = optimizer.register_load_state_dict_post_hook(take_state)
        guard(optimizer)
        if self._optimizer is not None:
            # Without torch's wrapper for profilers, a tenth of a small model's step.
            step = type(self._optimizer).step
            self._step: Callable[[Optimizer], Any] = getattr(step, "__wrapped__", step)

    def step(self, marks: list[Tensor] | None) -> None:
        """Step the pieces whose parameters are marked as having a gradient; None marks them all."""
        check_nothing_hung_on(self._source, strategy="central")
        if not is_in_pieces(self._source):
            mark_in_pieces(self._source)
            self._source.state.clear()  # it is in the pieces, and from here on old
        if self._optimizer is None:
            return
        groups = zip(self._optimizer.param_groups, self._source.param_groups, strict=True)
        for mine, theirs in groups:
            for name, value in theirs.items():
                if name != "params":
                    mine[name] = value
        if marks is not None or not self._all_have_gradients:
            for block, index, piece, gradient in self._pieces:
                piece.grad = gradient if marks is None or marks[block][index] else None
            self._all_have_gradients = marks is None
        self._step(self._optimizer)

    def _take_state(self) -> None:
        """Cut the pieces' state out of the whole optimizer's."""
        mark_whole(self._source)
        if self._optimizer is None:
            return
        self._optimizer.state.clear()
        for parameter, where, value in self._places:
            if parameter in self._source.state:
                whole = self._source.state[parameter]
                self._optimizer.state[value] = _cut_state(whole, parameter, where)

    def state(self, names: Mapping[nn.Parameter, str]) -> State:
        """What this rank's pieces have become, each as a slice of its parameter's."""
        state = read_groups(self._source, names)
        if self._optimizer is None:
            return state
        for parameter, where, value in self._places:
            order = memory_order(dense_strides(parameter))
            for entry, kept in self._optimizer.state.get(value, {}).items():
                part: Any = kept.clone() if isinstance(kept, Tensor) else kept
                if isinstance(part, Tensor) and entry not in SCALARS:
                    part = Slice(part, tuple(parameter.shape), order, where.start)
                put_entry(state, names[parameter], entry, part)
        return state

    def load(self, names: Mapping[nn.Parameter, str], state: State) -> None:
        """Go on from what a whole state says of the pieces' parameters."""
        write_groups(self._source, state)
        found = entries_by_parameter(state)
        self._source.state.clear()
        mark_in_pieces(self._source)
        if self._optimizer is None:
            return
        self._optimizer.state.clear()
        for parameter, where, value in self._places:
            if names[parameter] in found:
                kept = _cut_state(found[names[parameter]], parameter, where)
                group = self._source.param_groups[self._group_of[parameter]]
                self._optimizer.state[value] = place_counters(kept, parameter, group)

    def close(self) -> None:
        """Let go of the user's optimizer. What the pieces had become is gone then."""
        self._loading.remove()
        end_guard(self._source)


def _options(group: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "params"}


def _remake(optimizer: Optimizer, groups: list[dict[str, Any]]) -> Optimizer | None:
    """The same kind of optimizer over other tensors; None if there is not one of them."""
    if not any(group["params"] for group in groups):
        return None
    # A group may be empty here, which torch refuses on construction but not afterwards.
    filled = next(group for group in groups if group["params"])
    kind: Callable[[list[Tensor]], Optimizer] = type(optimizer)
    made = kind(filled["params"])
    made.param_groups.clear()
    made.param_groups.extend(groups)
    return made


def _piece(block: FlatBlock, index: int, slice_: slice) -> tuple[slice, Tensor, Tensor] | None:
    """What of a parameter lies in the slice: where in it, its values, its summed gradient."""
    start = block.layout.starts[index]
    end = start + block.layout.parameters[index].numel()
    low, high = max(start, slice_.start), min(end, slice_.stop)
    if low >= high:
        return None
    return slice(low - start, high - start), block.values[low:high], block.gradients[low:high]


def _cut_state(state: dict[str, Any], parameter: nn.Parameter, where: slice) -> dict[str, Any]:
    """A parameter's optimizer state, cut to a piece of it; counters and the like stay whole."""
    cut: dict[str, Any] = {}
    order = memory_order(dense_strides(parameter))
    for name, value in state.items():
        if isinstance(value, Tensor) and name not in SCALARS:
            cut[name] = elements(value, order)[where].to(parameter.device, copy=True)
        else:
            cut[name] = value.clone() if isinstance(value, Tensor) else value
    return cut
