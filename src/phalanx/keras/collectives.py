"""Collective operations on values of any kind: the backend's tensors, arrays and plain numbers.

Tensors of the backend come back as such, everything else as a numpy array. Reductions and
broadcasts may stand inside a compiled training step; an allgather, whose result has a shape of its
own, may not.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from phalanx.horovod.api import collectives, redistribution
from phalanx.horovod.api.process_sets import ProcessSet, global_process_set
from phalanx.horovod.engine.compression import Compression
from phalanx.horovod.engine.reductions import ReduceOp, chosen_op
from phalanx.keras.bridge import as_array, as_tensor, call
from phalanx.keras.presence import keras

_ALL = global_process_set


def allreduce(
    value: Any, name: str | None = None, average: bool | None = None,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0, op: ReduceOp | None = None,
    compression: Any = Compression.none, process_set: ProcessSet = _ALL,
) -> Any:  # fmt: skip
    """Collective. All ranks' values combined, by default averaged."""
    chosen = chosen_op(average, op)

    def reduce(tensor: Tensor) -> Tensor:
        return collectives.allreduce(
            tensor, None, name, compression, chosen, prescale_factor, postscale_factor, process_set
        )

    return _same_shape(reduce, value)


def broadcast(
    value: Any, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = _ALL
) -> Any:
    """Collective. The root's value, on every rank."""
    return _same_shape(
        lambda tensor: collectives.broadcast(tensor, root_rank, name, process_set), value
    )


def allgather(value: Any, name: str | None = None, process_set: ProcessSet = _ALL) -> Any:
    """Collective. All ranks' values after each other; numbers of rows may differ."""
    own = keras.ops.convert_to_numpy(value)
    result = as_array(redistribution.allgather(as_tensor(own), name, process_set))
    return keras.ops.convert_to_tensor(result) if keras.ops.is_tensor(value) else result


def _same_shape(operation: Callable[[Tensor], Tensor], value: Any) -> Any:
    """An operation on a value, within a training step or outside of one."""

    def on_host(tensors: Any) -> list[Tensor]:
        (own,) = tensors
        return [operation(own if isinstance(own, Tensor) else as_tensor(own))]

    if isinstance(value, keras.Variable):
        value = value.value
    if keras.ops.is_tensor(value):
        return call(on_host, [value])[0]
    return as_array(on_host([np.asarray(value)])[0])
