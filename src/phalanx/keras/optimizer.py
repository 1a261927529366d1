"""DistributedOptimizer: any Keras optimizer, whose gradients are combined over the ranks."""

from typing import Any

from phalanx.errors import UsageError
from phalanx.horovod.api.process_sets import ProcessSet, global_process_set
from phalanx.horovod.engine.compression import Compression
from phalanx.horovod.engine.reductions import Average, ReduceOp
from phalanx.keras.compiling import take_compile_option
from phalanx.keras.distribution import (
    DistributedMethods,
    DistributedScalingMethods,
    Distribution,
    LossScaleOptimizer,
    check_local,
    distribution_of,
    exchange_before_loss_scaling,
)
from phalanx.keras.exchange import HostExchange, Passes, exchange_options
from phalanx.keras.local import LocalVariables
from phalanx.keras.presence import keras


def DistributedOptimizer(  # noqa: N802
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: ReduceOp = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """The same optimizer, which from now on combines gradients over the ranks before each update.

    It stays what it was in every other way, and is saved as the optimizer that it was: plain Keras
    can load such a model. With `backward_passes_per_step` gradients are added up (or averaged:
    `average_aggregated_gradients`) over so many batches between two exchanges. All gradients travel
    together, dense and on the host, so `name`, `device_dense`, `device_sparse`, `sparse_as_dense`,
    `num_groups` and `groups` change nothing. Variables given to its `register_local_var` are local
    to a rank, as those of `PartialDistributedOptimizer`.
    """
    return PartialDistributedOptimizer(
        optimizer,
        compression=compression,
        gradient_predivide_factor=gradient_predivide_factor,
        op=op,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )


def PartialDistributedOptimizer(  # noqa: N802
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: ReduceOp = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """`DistributedOptimizer` but for some layers, whose gradients stay on their rank.

    They are divided by the number of ranks, as the average of all others is, unless
    `scale_local_gradients` is False. A BroadcastGlobalVariablesCallback is to be told of such
    variables, too (`register_local_var`), or it gives all ranks the root's.
    """
    _check(optimizer)
    options = exchange_options(
        op, gradient_predivide_factor, compression=compression, process_set=process_set
    )
    passes = _passes(optimizer, backward_passes_per_step, average_aggregated_gradients)
    local = LocalVariables(local_layers)
    if local.are_some:
        check_local(optimizer)
    take_compile_option()
    exchange_before_loss_scaling()
    host = HostExchange(options, passes)
    return _wrapped(
        optimizer, Distribution(host, local, scale_local_gradients=scale_local_gradients)
    )


def _check(optimizer: Any) -> None:
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise UsageError(
            f"DistributedOptimizer takes a Keras optimizer such as keras.optimizers.SGD(0.1), "
            f"not {optimizer!r}"
        )
    if distribution_of(optimizer) or distribution_of(getattr(optimizer, "inner_optimizer", None)):
        raise UsageError("this optimizer is distributed already: wrap it once")


def _wrapped(optimizer: Any, distribution: Distribution) -> Any:
    base = type(optimizer)
    scales = issubclass(base, LossScaleOptimizer)
    methods = DistributedScalingMethods if scales else DistributedMethods
    # Keras writes down an object's __class__, and so the file knows the original class alone.
    names = {"_distribution": distribution, "__class__": property(lambda _self: base)}
    made = type(base.__name__, (methods, base), names | {"__module__": base.__module__})
    object.__setattr__(optimizer, "__class__", made)
    return optimizer


def _passes(optimizer: Any, number: int, averaged: bool) -> Passes:
    """Have Keras update the variables at the last of some passes alone."""
    if number < 1:
        raise UsageError(f"backward_passes_per_step must be at least 1, not {number}")
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    own = inner.gradient_accumulation_steps
    if number == 1:
        return Passes(own, averaged=True) if own else Passes()
    if own not in (None, number):
        raise UsageError(
            f"backward_passes_per_step={number} and the optimizer's gradient_accumulation_steps="
            f"{own} mean the same thing: give one of them"
        )
    if own is None and inner.built:
        raise UsageError(
            "backward_passes_per_step needs room in the optimizer, which is built already: wrap it "
            f"before the model is built, or create it with gradient_accumulation_steps={number}"
        )
    inner.gradient_accumulation_steps = number
    return Passes(number, averaged=averaged)
