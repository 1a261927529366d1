"""Collective operations on values of any kind: the backend's tensors, arrays and plain numbers.

Tensors of the backend come back as such, everything else as a numpy array. Reductions and
broadcasts may stand inside a compiled training step, and gradients flow through them; an allgather
and a reducescatter, whose results have shapes of their own, may not.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from phalanx.errors import UsageError
from phalanx.horovod.api import collectives, redistribution
from phalanx.horovod.api.process_sets import ProcessSet, global_process_set
from phalanx.horovod.engine.compression import Compression
from phalanx.horovod.engine.reductions import Average, ReduceOp, chosen_op
from phalanx.keras.bridge import as_array, as_tensor, is_symbolic
from phalanx.keras.differentiable import Operation, any_shape, same_shape
from phalanx.keras.presence import keras

_ALL = global_process_set


def allreduce(
    value: Any, name: str | None = None, average: bool | None = None,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0, op: ReduceOp | None = None,
    compression: Any = Compression.none, process_set: ProcessSet = _ALL,
) -> Any:  # fmt: skip
    """Collective. All ranks' values combined, by default averaged."""
    chosen = chosen_op(average, op)

    def reduce(tensor: Tensor, name: str | None = None) -> Tensor:
        return collectives.allreduce(
            tensor, None, name, compression, chosen, prescale_factor, postscale_factor, process_set
        )

    return _same_shape(lambda tensor: reduce(tensor, name), reduce, value)


def broadcast(
    value: Any, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = _ALL
) -> Any:
    """Collective. The root's value, on every rank."""

    def to_the_root(gradient: Tensor) -> Tensor:
        average = collectives.allreduce(gradient, op=Average, process_set=process_set)
        is_root = process_set.ranks[process_set.rank()] == root_rank
        return average if is_root else average.zero_()

    return _same_shape(
        lambda tensor: collectives.broadcast(tensor, root_rank, name, process_set),
        to_the_root,
        value,
    )


def allgather(value: Any, name: str | None = None, process_set: ProcessSet = _ALL) -> Any:
    """Collective. All ranks' values after each other; numbers of rows may differ."""
    return _any_shape(
        "allgather",
        lambda tensor: redistribution.allgather(tensor, name, process_set),
        value,
        rows=lambda own: own * process_set.size(),
    )


def reducescatter(
    value: Any, name: str | None = None, op: ReduceOp = Average,
    compression: Any = Compression.none, process_set: ProcessSet = _ALL,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0,
) -> Any:  # fmt: skip
    """Collective. This rank's rows of all values combined; the first ranks get one more."""

    def reduce(tensor: Tensor) -> Tensor:
        return redistribution.reducescatter(
            tensor, name, compression, op, process_set, prescale_factor, postscale_factor
        )

    return _any_shape("reducescatter", reduce, value, rows=lambda own: own // process_set.size())


def _same_shape(operation: Operation, backward: Operation, value: Any) -> Any:
    """An operation on a value, within a training step or outside of one."""
    value = _known(value)
    if keras.ops.is_tensor(value):
        return same_shape(operation, backward, value)
    return as_array(operation(as_tensor(value)))


def _any_shape(verb: str, operation: Operation, value: Any, *, rows: Callable[[int], int]) -> Any:
    value = _known(value)
    if is_symbolic(value):
        raise UsageError(
            f"{verb} has a result of a shape of its own, and so cannot stand in a step that gets "
            "compiled: call it outside of the step, or use model.compile(..., run_eagerly=True); "
            "allreduce and broadcast may stand there"
        )
    if keras.ops.is_tensor(value):
        return any_shape(operation, value, rows=rows)
    return as_array(operation(as_tensor(value)))


def _known(value: Any) -> Any:
    """A tensor of the backend, or an array."""
    if isinstance(value, keras.KerasTensor):
        raise UsageError(
            f"{value} stands for tensors that a model will have, and has no value to send: put the "
            "operation in the `call` of a layer of your own"
        )
    if isinstance(value, keras.Variable):
        return value.value
    if keras.ops.is_tensor(value):
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "biufcV" or (array.dtype.kind == "V" and array.dtype.names):
        raise UsageError(f"operations take tensors, arrays and numbers, not {value!r}")
    return array
