"""The same everywhere: parameters, an optimizer's state, and any other object."""

import pickle
from collections.abc import Iterable, Mapping
from typing import Any

import cloudpickle
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from phalanx.errors import UsageError
from phalanx.horovod.api import new_state
from phalanx.horovod.api.collectives import broadcast, broadcast_async_
from phalanx.horovod.api.operations import refuse, synchronize
from phalanx.horovod.api.process_sets import ProcessSet, global_process_set
from phalanx.horovod.api.redistribution import allgather
from phalanx.wording import a


def broadcast_parameters(
    params: Mapping[str, Any] | Iterable[Any],
    root_rank: int = 0,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Collective. Give all ranks the root's values, in place.

    Takes `model.state_dict()`, `model.named_parameters()` or `model.parameters()`.
    """
    found = params.items() if isinstance(params, Mapping) else params
    pairs = [(str(i), one) if isinstance(one, Tensor) else one for i, one in enumerate(found)]
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise UsageError("broadcast_parameters takes a state_dict or (name, tensor) pairs")
        if pair[1] is not None and not isinstance(pair[1], Tensor):
            raise UsageError(
                f"broadcast_parameters: '{pair[0]}' is {a(pair[1])}, not a tensor; "
                "use broadcast_object for it"
            )
    handles = [
        broadcast_async_(tensor, root_rank, f"parameters.{name}", process_set)
        for name, tensor in pairs
        if tensor is not None
    ]
    for handle in handles:
        synchronize(handle)


def broadcast_optimizer_state(
    optimizer: Optimizer,
    root_rank: int,
    model: nn.Module | None = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Collective. Give all ranks the root's optimizer state and options, learning rates included.

    As with Horovod, an optimizer without a state gets gradients of zeros (sparse ones for sparse
    embeddings of `model`), and if the root's has none, it steps on them once. A rank whose
    optimizer has not stepped, while the root's has, gets the state without a step of its own.
    """
    is_root = process_set.ranks[process_set.rank()] == root_rank
    tensors: list[Tensor] = []
    is_new = new_state.is_missing(optimizer)
    if is_new:
        new_state.give_zeros(optimizer, model)
    if is_new and is_root:
        new_state.step_once(optimizer)
    outline = _without_tensors(optimizer.state_dict(), tensors) if is_root else None
    message = broadcast_object((is_new, outline), root_rank, "optimizer.outline", process_set)
    root_was_new, outline = message
    if not is_root:
        if is_new and root_was_new:
            new_state.step_once(optimizer)
        _collect_outlined(outline, tensors)
    handles = [
        broadcast_async_(tensor, root_rank, f"optimizer.{number}", process_set)
        for number, tensor in enumerate(tensors)
    ]
    for handle in handles:
        synchronize(handle)
    if not is_root:
        optimizer.load_state_dict(_with_tensors(outline, tensors))


def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Collective. The root's object, on every rank; whatever cloudpickle takes.

    If it cannot be serialised, no rank waits for it.
    """
    name = name or "object"
    is_root = process_set.ranks[process_set.rank()] == root_rank
    payload = torch.empty(0, dtype=torch.uint8)
    if is_root:
        payload = _serialised(obj, "broadcast", f"{name}.size", process_set)
    length = broadcast(torch.tensor([payload.numel()]), root_rank, f"{name}.size", process_set)
    if not is_root:
        payload = torch.empty(int(length), dtype=torch.uint8)
    result = broadcast(payload, root_rank, f"{name}.data", process_set)
    return obj if is_root else _object(result)


def allgather_object(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Collective. Everybody's object, in rank order; whatever cloudpickle takes."""
    name = name or "object"
    payload = _serialised(obj, "allgather", f"{name}.sizes", process_set)
    sizes = allgather(torch.tensor([payload.numel()]), f"{name}.sizes", process_set)
    everything = allgather(payload, f"{name}.data", process_set)
    return [_object(piece) for piece in torch.split(everything, sizes.tolist())]


def _serialised(value: object, verb: str, name: str, process_set: ProcessSet) -> Tensor:
    """An object's bytes; if it has none, the ranks that wait for this operation hear of it."""
    try:
        data = cloudpickle.dumps(value)
    except Exception as error:  # of whatever kind the object's own methods raise
        problem = UsageError(f"{a(value)} cannot be serialised: {error}")
        refuse(problem, verb, name, process_set, grouped=False)
        raise
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _object(payload: Tensor) -> Any:
    return pickle.loads(payload.numpy().tobytes())


class _Outlined:
    """Stands for a tensor in the outline of a state."""

    def __init__(self, number: int, tensor: Tensor) -> None:
        self.number = number
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype


def _without_tensors(value: Any, tensors: list[Tensor]) -> Any:
    """A state with its tensors moved to the list."""
    if isinstance(value, Tensor):
        tensors.append(value.detach())
        return _Outlined(len(tensors) - 1, value)
    if isinstance(value, dict):
        return {key: _without_tensors(one, tensors) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_without_tensors(one, tensors) for one in value)
    return value


def _collect_outlined(value: Any, tensors: list[Tensor]) -> None:
    """Make room for the tensors of an outline, in their order."""
    if isinstance(value, _Outlined):
        tensors.append(torch.empty(value.shape, dtype=value.dtype))
    elif isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            _collect_outlined(one, tensors)


def _with_tensors(value: Any, tensors: list[Tensor]) -> Any:
    if isinstance(value, _Outlined):
        return tensors[value.number]
    if isinstance(value, dict):
        return {key: _with_tensors(one, tensors) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_with_tensors(one, tensors) for one in value)
    return value
