"""Horovod's Keras interface, for Keras 3 on torch, JAX and TensorFlow:
`import phalanx.keras as hvd`.

Where to look first: `optimizer.py` puts the exchange into a training step, `bridge.py` gets it out
of a compiled one, `exchange.py` carries it out.
"""

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
from phalanx.keras import callbacks
from phalanx.keras.collectives import allgather, allreduce, broadcast
from phalanx.keras.devices import pin_device
from phalanx.keras.optimizer import DistributedOptimizer
from phalanx.keras.variables import broadcast_global_variables, load_model

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "barrier",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "callbacks",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
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
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]
