"""An optimizer that steps one slice of flat storage: its state exists for that slice alone."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
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

from phalanx.comm.base import Communicator
from phalanx.errors import UsageError
from phalanx.exchange.flat import FlatBlock
from phalanx.exchange.views import dense_strides

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


#: Users' optimizers whose state is in pieces at present.
_IN_PIECES: "weakref.WeakSet[Optimizer]" = weakref.WeakSet()


def is_elementwise(optimizer: Optimizer) -> bool:
    """Whether the optimizer can step a slice; a subclass may do anything, and so cannot."""
    return type(optimizer) in ELEMENTWISE


def check_elementwise(optimizer: Optimizer, *, strategy: str) -> None:
    """Refuse an optimizer that needs a whole parameter, or all of them, to step."""
    if not is_elementwise(optimizer):
        names = ", ".join(kind.__name__ for kind in ELEMENTWISE)
        raise UsageError(
            f"strategy '{strategy}' steps pieces of parameters, which {type(optimizer).__name__} "
            f"cannot do; strategies 'single' and 'allreduce' take every optimizer, '{strategy}' "
            f"takes {names}"
        )


class SlicedOptimizer:
    """The user's optimizer, made again over the pieces of parameters that lie in a slice.

    Hyper-parameters are read from the user's optimizer at every step, so that schedulers work. Its
    state is taken over, also when it is loaded later; what has become of it is in pieces on all
    ranks until `gather` puts them together.
    """

    def __init__(self, optimizer: Optimizer, blocks: list[tuple[FlatBlock, slice]]) -> None:
        self._source = optimizer
        self._all_have_gradients = False
        self._pieces: list[tuple[int, int, Tensor, Tensor]] = []
        self._places: list[tuple[nn.Parameter, slice, Tensor]] = []
        groups: list[dict[str, Any]] = [
            {**_options(group), "params": []} for group in optimizer.param_groups
        ]
        group_of = {
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

        optimizer.register_load_state_dict_post_hook(take_state)
        optimizer.register_state_dict_pre_hook(check_whole)
        if self._optimizer is not None:
            # Without torch's wrapper for profilers, a tenth of a small model's step.
            step = type(self._optimizer).step
            self._step: Callable[[Optimizer], Any] = getattr(step, "__wrapped__", step)

    def step(self, marks: list[Tensor] | None) -> None:
        """Step the pieces whose parameters are marked as having a gradient; None marks them all."""
        if self._source not in _IN_PIECES:
            _IN_PIECES.add(self._source)
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
        _IN_PIECES.discard(self._source)
        if self._optimizer is None:
            return
        self._optimizer.state.clear()
        for parameter, where, value in self._places:
            if parameter in self._source.state:
                whole = self._source.state[parameter]
                self._optimizer.state[value] = _cut_state(whole, parameter, where)

    def gather(self, comm: Communicator) -> None:
        """Collective over the ranks that hold all pieces. Give the optimizer its whole state."""
        if self._source not in _IN_PIECES:
            return
        mine = {parameter: (where, value) for parameter, where, value in self._places}
        for group in self._source.param_groups:
            for parameter in group["params"]:
                state = self._gathered(comm, parameter, mine.get(parameter))
                if state:
                    self._source.state[parameter] = state
        _IN_PIECES.discard(self._source)

    def _gathered(
        self, comm: Communicator, parameter: nn.Parameter, mine: tuple[slice, Tensor] | None
    ) -> dict[str, Any]:
        """A parameter's whole state: what is as long as a piece in place, the rest as it is."""
        state: dict[str, Any] = {}
        if mine is not None and self._optimizer is not None:
            state = dict(self._optimizer.state.get(mine[1], {}))
        pieces = {name: one for name, one in state.items() if _is_piece(one, mine)}
        told = {name: (one.dtype if name in pieces else one) for name, one in sorted(state.items())}
        known = next((one for one in comm.allgather_objects(told) if one), {})
        whole: dict[str, Any] = {}
        for name, one in known.items():
            if not isinstance(one, torch.dtype):
                whole[name] = one
                continue
            flat = torch.zeros(parameter.numel(), dtype=one)
            if mine is not None and name in pieces:
                flat[mine[0]] = pieces[name]
            comm.allreduce(flat)
            whole[name] = flat.as_strided(parameter.shape, dense_strides(parameter)).clone()
        return whole


def check_whole(optimizer: Optimizer) -> None:
    """Refuse an optimizer whose state another training keeps in pieces: it would seem to be new."""
    if optimizer in _IN_PIECES:
        raise UsageError(
            "this optimizer's state is in pieces on all ranks: have each of them call "
            "gather_optimizer_state() of the Trainer that it is used by"
        )


def _is_piece(value: Any, mine: tuple[slice, Tensor] | None) -> bool:
    return mine is not None and isinstance(value, Tensor) and value.shape == mine[1].shape


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
    for name, value in state.items():
        if isinstance(value, Tensor) and value.shape == parameter.shape and value.dim() > 0:
            dense = torch.empty_strided(value.shape, parameter.stride(), dtype=value.dtype)
            dense.copy_(value)
            cut[name] = dense.as_strided((value.numel(),), (1,))[where].clone()
        else:
            cut[name] = value.clone() if isinstance(value, Tensor) else value
    return cut
