"""Asking for operations: names, handles, and what each verb needs to know.

An operation without a name gets one from the order in which its process set's operations without a
name were asked for, so all ranks must ask for those in the same order. Once all ranks have joined
they count anew: those that joined early have asked for fewer.

Arguments that a rank refuses by itself are no reason for the others to wait for it: it tells them.
"""

import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from phalanx.errors import UsageError
from phalanx.horovod.api.process_sets import ProcessSet, global_process_set
from phalanx.horovod.engine.engine import Engine
from phalanx.horovod.engine.reductions import Adasum, ReduceOp, check_op, chosen_op
from phalanx.horovod.engine.requests import Description, Pending, dtype_names, shapes_of

Checked = TypeVar("Checked")
#: What becomes of a result before the caller gets it.
Pick = Callable[[Any], Any]

_handles: dict[int, tuple[Engine, Pending, Pick]] = {}
_numbers = count(1)
#: How often all ranks had joined, and the numbers of operations without a name since.
_unnamed: "WeakKeyDictionary[Engine, tuple[int, count[int]]]" = WeakKeyDictionary()
_naming = threading.Lock()


def first(result: list[Any]) -> Any:
    """The result of an operation on one tensor."""
    return result[0]


def everything(result: list[Any]) -> list[Any]:
    """The results of a grouped operation."""
    return result


def request(
    verb: str,
    tensors: Sequence[Tensor],
    name: str | None,
    *,
    process_set: ProcessSet,
    in_place: bool = False,
    grouped: bool = False,
    **fields: Any,
) -> tuple[Engine, Pending]:
    """An operation, described but not asked for yet."""
    engine = process_set.engine()
    try:
        dtypes = dtype_names(tensors)
    except UsageError as error:
        refuse(error, verb, name, process_set, grouped=grouped)
        raise
    full = f"{_prefix(verb, grouped)}.{_name(engine, name)}"
    description = Description(full, verb, dtypes, shapes_of(tensors), **fields)
    return engine, Pending(description, tensors, in_place=in_place)


def checked(
    check: Callable[[], Checked],
    verb: str,
    name: str | None,
    process_set: ProcessSet,
    *,
    grouped: bool = False,
) -> Checked:
    """What a check of this rank's arguments gives; if it refuses them, all ranks hear of it."""
    try:
        return check()
    except UsageError as error:
        refuse(error, verb, name, process_set, grouped=grouped)
        raise


def refuse(
    error: UsageError, verb: str, name: str | None, process_set: ProcessSet, *, grouped: bool
) -> None:
    """Have an operation fail on the ranks that ask for it, now or later. Waits for nobody."""
    engine = process_set.engine()
    if engine.comm.size > 1:
        full = f"{_prefix(verb, grouped)}.{_name(engine, name)}"
        engine.submit(Pending(Description(full, verb, refused=str(error))))


def run(asked: tuple[Engine, Pending], pick: Pick = first) -> Any:
    """Collective. Carry out an operation, and wait for its result."""
    engine, pending = asked
    engine.submit(pending, wake=False)
    return pick(engine.wait(pending))


def begin(asked: tuple[Engine, Pending], pick: Pick = first) -> int:
    """Collective. Begin an operation; the handle to `poll` and `synchronize` it."""
    engine, pending = asked
    engine.submit(pending)
    handle = next(_numbers)
    _handles[handle] = (engine, pending, pick)
    return handle


def poll(handle: int) -> bool:
    """Whether an operation is done: `synchronize` then does not wait."""
    if handle not in _handles:
        raise UsageError(f"{handle} is the handle of no operation, or of one synchronized before")
    engine, pending, _ = _handles[handle]
    engine.nudge()
    return pending.done


def synchronize(handle: Any) -> Any:
    """Wait for an operation that was begun; its result. None for a handle used up before."""
    if callable(handle):
        return handle()
    if handle not in _handles:
        return None
    engine, pending, pick = _handles.pop(handle)
    return pick(engine.wait(pending))


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Collective. Return when all ranks of the process set have come here."""
    run(request("barrier", [], None, process_set=process_set), everything)


def join(device: int = -1) -> int:
    """Collective. This rank has no more data: it stands in with zeros until all ranks have joined.

    Returns the last rank to join, the same one on all ranks. `device` is not used.
    """
    return global_process_set.engine().join()


def check_reduction(op: ReduceOp, tensors: Sequence[Tensor], process_set: ProcessSet) -> None:
    """Refuse reductions that make no sense."""
    dtype_names(tensors)
    check_op(op, list(tensors))
    if op is Adasum and process_set is not global_process_set:
        raise UsageError("Adasum is for all ranks: leave process_set out")


def check_group(tensors: object) -> list[Tensor]:
    """The tensors of a group; a group needs at least one."""
    if isinstance(tensors, Tensor) or not isinstance(tensors, Sequence):
        raise UsageError(
            f"a grouped operation takes a list of tensors, not {type(tensors).__name__}"
        )
    if not tensors:
        raise UsageError("a grouped operation needs at least one tensor")
    return list(tensors)


def check_rows(verb: str, tensors: Sequence[Tensor]) -> None:
    """Refuse tensors without a first dimension, where that one is cut."""
    for tensor in tensors:
        if not tensor.dim():
            raise UsageError(f"{verb} cuts the first dimension, and a 0-d tensor has none")


def split_rows(splits: object, tensor: Tensor, process_set: ProcessSet) -> tuple[int, ...] | None:
    """Checked rows for each rank, or None for equal parts."""
    check_rows("alltoall", [tensor])
    rows, size = tensor.shape[0], process_set.size()
    if splits is None:
        if rows % size:
            raise UsageError(f"alltoall: {rows} rows are not {size} equal parts; give splits")
        return None
    values = splits.tolist() if isinstance(splits, Tensor) else list(splits)  # type: ignore[call-overload]
    if len(values) != size or min(values) < 0 or sum(values) != rows:
        raise UsageError(
            f"alltoall: splits {values} must be {size} numbers that add up to the {rows} rows "
            f"of {list(tensor.shape)}"
        )
    return tuple(int(value) for value in values)


def sparse_allreduce_async(
    tensor: Tensor,
    name: str | None = None,
    op: int = ReduceOp.AVERAGE,
    process_set: ProcessSet = global_process_set,
) -> Callable[[], Tensor]:
    """Collective. Begin to add up sparse tensors; call what is returned for the result."""
    name = name or f"sparse.{_name(process_set.engine(), None)}"
    try:
        chosen = chosen_op(None, op)
        _check_sparse(tensor, chosen)
    except UsageError as error:
        for label in ("indices", "values"):
            refuse(error, "allgather", f"{name}.{label}", process_set, grouped=False)
        raise
    indices = tensor._indices().t().contiguous()
    gathers = [
        begin(request("allgather", [part], f"{name}.{label}", process_set=process_set))
        for label, part in (("indices", indices), ("values", tensor._values()))
    ]

    def result() -> Tensor:
        try:
            where = synchronize(gathers[0])
        finally:  # not left under way, so that the name can be used again
            values = synchronize(gathers[1])
        if chosen is ReduceOp.AVERAGE:
            values = values / process_set.size()
        return torch.sparse_coo_tensor(where.t(), values, tensor.shape, check_invariants=False)

    return result


def _check_sparse(tensor: Tensor, op: ReduceOp) -> None:
    if not tensor.is_sparse:
        raise UsageError("sparse_allreduce_async takes a sparse COO tensor; use allreduce_async")
    if op not in (ReduceOp.AVERAGE, ReduceOp.SUM):
        raise UsageError(f"sparse tensors have op Average and Sum, not {op.label}")


def _prefix(verb: str, grouped: bool) -> str:
    return f"grouped_{verb}" if grouped else verb


def _name(engine: Engine, name: str | None) -> str:
    if name is not None:
        return name
    with _naming:
        joins, numbers = _unnamed.get(engine, (-1, count()))
        if joins != engine.joins:
            joins, numbers = _unnamed[engine] = engine.joins, count(1)
        number = next(numbers)
    return f"noname.{number}" if not joins else f"noname.{joins}.{number}"
