"""Horovod's Keras interface, for Keras 3 on torch, JAX and TensorFlow:
`import phalanx.keras as hvd`.

Where to look first: `distribution.py` puts the exchange into a training step, `bridge.py` gets it
out of a compiled one, `exchange.py` carries it out.
"""

from typing import Any

from phalanx.horovod.api.basics import (
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    rocm_built,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from phalanx.horovod.api.functions import allgather_object, broadcast_object
from phalanx.horovod.api.operations import barrier
from phalanx.horovod.api.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from phalanx.horovod.engine.compression import Compression
from phalanx.horovod.engine.exceptions import HorovodInternalError
from phalanx.horovod.engine.reductions import Adasum, Average, Max, Min, Product, Sum
from phalanx.keras import callbacks, elastic
from phalanx.keras.collectives import allgather, allreduce, broadcast, reducescatter
from phalanx.keras.devices import pin_device
from phalanx.keras.loading import load_model
from phalanx.keras.optimizer import DistributedOptimizer, PartialDistributedOptimizer
from phalanx.keras.sync_batch_norm import SyncBatchNormalization
from phalanx.keras.tape import DistributedGradientTape, PartialDistributedGradientTape
from phalanx.keras.variables import broadcast_global_variables, broadcast_variables

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "PartialDistributedGradientTape",
    "PartialDistributedOptimizer",
    "ProcessSet",
    "Product",
    "Sum",
    "SyncBatchNormalization",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "barrier",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_variables",
    "callbacks",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "load_model",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "pin_device",
    "rank",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]

_EAGERLY = "Keras 3 computes with values at once: use the function of that name without _op"
_ALONE = "give each tensor, or a list of variables, to the operation on one"
#: What Horovod has for TensorFlow and Keras has no use for, or has not yet, and what to do instead.
_LACKING = {
    "BroadcastGlobalVariablesHook": "use callbacks.BroadcastGlobalVariablesCallback",
    "alltoall": "use allgather, and take this rank's rows",
    "broadcast_object_fn": "use broadcast_object",
    "grouped_allgather": _ALONE,
    "grouped_allreduce": _ALONE,
    "grouped_reducescatter": _ALONE,
    "join": "give all ranks as many batches: model.fit(…, steps_per_epoch=…)",
    "local_rank_op": _EAGERLY,
    "local_size_op": _EAGERLY,
    "process_set_included_op": "use ProcessSet.included",
    "rank_op": _EAGERLY,
    "size_op": _EAGERLY,
}


def __getattr__(name: str) -> Any:
    why = f": {_LACKING[name]}" if name in _LACKING else ""
    raise AttributeError(f"phalanx.keras has no '{name}'{why}")
