"""DistributedOptimizer: any Keras optimizer, whose gradients are combined over the ranks.

The optimizer's `apply` is where every training step of Keras brings its gradients: compiled by JAX
or TensorFlow, run by torch, or written by a user. So a subclass overrides it, and the exchange is a
part of the step that gets compiled.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from math import prod
from typing import Any, final

from phalanx.errors import UsageError
from phalanx.horovod.api.process_sets import ProcessSet, global_process_set
from phalanx.horovod.engine.compression import Compression
from phalanx.horovod.engine.reductions import Adasum, Average, ReduceOp, Sum
from phalanx.horovod.optimizer.options import Options
from phalanx.keras.bridge import call
from phalanx.keras.exchange import HostExchange, Passes
from phalanx.keras.presence import backend, keras

LossScaleOptimizer: Any = keras.optimizers.LossScaleOptimizer


@final
class Distribution:
    """What a wrapped optimizer knows besides what it wraps."""

    def __init__(self, host: HostExchange) -> None:
        self.host = host
        #: Whether gradients have been exchanged already by whoever calls.
        self.done = False

    def exchange(self, gradients: Sequence[Any], optimizer: Any) -> list[Any]:
        """Collective. The gradients of all ranks combined; those that are None stay None."""
        passes = self.host.passes
        present = [_dense(one) for one in gradients if one is not None]
        if self.host.is_alone:
            summed = passes.number > 1 and not passes.averaged
            results = [one * passes.number for one in present] if summed else present
        else:
            more = (_passes_done(optimizer),) if passes.number > 1 else ()
            results = _exchanged(self.host, present, more)
        left = iter(results)
        return [None if one is None else next(left) for one in gradients]

    @contextmanager
    def exchanged(self) -> Iterator[None]:
        """Inside, the optimizer takes its gradients as they are."""
        before, self.done = self.done, True
        try:
            yield
        finally:
            self.done = before


def _passes_done(optimizer: Any) -> Any:
    """How many passes an optimizer has seen; its public `iterations` counts updates."""
    return getattr(optimizer, "inner_optimizer", optimizer)._iterations.value


def _exchanged(host: HostExchange, gradients: list[Any], more: tuple[Any, ...]) -> list[Any]:
    """One call for all gradients, in one buffer for each dtype where a call is dear."""
    if backend() == "torch" or host.options.op is Adasum:
        return call(host.combine, gradients, *more)
    ops = keras.ops
    by_dtype: dict[str, list[int]] = {}
    for number, gradient in enumerate(gradients):
        name = keras.backend.standardize_dtype(gradient.dtype)
        by_dtype.setdefault(name, []).append(number)
    groups = list(by_dtype.values())
    flat = [ops.concatenate([ops.reshape(gradients[i], (-1,)) for i in group]) for group in groups]
    combined: dict[int, Any] = {}
    for group, whole in zip(groups, call(host.combine, flat, *more), strict=True):
        start = 0
        for number in group:
            shape = tuple(gradients[number].shape)
            size = prod(shape)
            combined[number] = ops.reshape(whole[start : start + size], shape)
            start += size
    return [combined[number] for number in range(len(gradients))]


def _dense(gradient: Any) -> Any:
    """The gradient of an embedding is some rows of it in TensorFlow; it travels as a whole."""
    if backend() != "tensorflow":
        return gradient
    import tensorflow as tf

    return tf.convert_to_tensor(gradient)


class DistributedMethods:
    """What a wrapped optimizer does differently. Its class is this one and the wrapped one's."""

    _distribution: Distribution

    def apply(self: Any, grads: Sequence[Any], trainable_variables: Any = None) -> Any:
        """Collective. Combine the gradients, and update the variables."""
        if not self._distribution.done:
            grads = self._distribution.exchange(grads, self)
        return super().apply(grads, trainable_variables)  # type: ignore[misc]


class DistributedScalingMethods(DistributedMethods):
    """The same for a wrapped LossScaleOptimizer, which for JAX decides outside of `apply`."""

    def stateless_apply(
        self: Any, optimizer_variables: Any, grads: Any, trainable_variables: Any
    ) -> Any:
        """Collective. Combine the gradients, and return the updated variables."""
        grads = _exchange_with_state(self, self._distribution, grads, optimizer_variables)
        return super().stateless_apply(optimizer_variables, grads, trainable_variables)  # type: ignore[misc]


def _exchange_with_state(
    optimizer: Any, distribution: Distribution, grads: Any, variables: Any
) -> Any:
    """The exchange outside of the scope in which variables have the values of this step."""
    with keras.StatelessScope(state_mapping=list(zip(optimizer.variables, variables, strict=True))):
        return distribution.exchange(grads, optimizer)


def distribution_of(optimizer: Any) -> Distribution | None:
    """What `DistributedOptimizer` has added to an optimizer, or None."""
    found: Distribution | None = getattr(optimizer, "_distribution", None)
    return found


@cache
def _exchange_before_loss_scaling() -> None:
    """Have a LossScaleOptimizer around a wrapped optimizer exchange before it looks for overflows.

    `compile` puts one around by itself for models in mixed_float16. It leaves a step out if it
    finds an overflow, on this rank alone: the others would wait for its gradients forever. After
    the exchange all ranks find the same.
    """
    cls: Any = LossScaleOptimizer
    apply, stateless_apply = cls.apply, cls.stateless_apply

    @wraps(apply)
    def distributed_apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        inner = distribution_of(self.inner_optimizer)
        if inner is None:
            return apply(self, grads, trainable_variables)
        grads = inner.exchange(grads, self)
        with inner.exchanged():
            return apply(self, grads, trainable_variables)

    @wraps(stateless_apply)
    def distributed_stateless_apply(
        self: Any, optimizer_variables: Any, grads: Any, trainable_variables: Any
    ) -> Any:
        inner = distribution_of(self.inner_optimizer)
        if inner is None:
            return stateless_apply(self, optimizer_variables, grads, trainable_variables)
        grads = _exchange_with_state(self, inner, grads, optimizer_variables)
        with inner.exchanged():
            return stateless_apply(self, optimizer_variables, grads, trainable_variables)

    cls.apply, cls.stateless_apply = distributed_apply, distributed_stateless_apply


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
    `num_groups` and `groups` change nothing; nor does `scale_local_gradients`, as no variable is
    local to a rank.
    """
    _check(optimizer, op, predivides=gradient_predivide_factor != 1.0)
    options = Options(
        op=op,
        predivide=float(gradient_predivide_factor),
        compression=compression,
        groups=(),
        sparse_as_dense=True,
        process_set=process_set,
    )
    passes = _passes(optimizer, backward_passes_per_step, average_aggregated_gradients)
    return _wrapped(optimizer, Distribution(HostExchange(options, passes)))


def _check(optimizer: Any, op: ReduceOp, *, predivides: bool) -> None:
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise UsageError(
            f"DistributedOptimizer takes a Keras optimizer such as keras.optimizers.SGD(0.1), "
            f"not {optimizer!r}"
        )
    if distribution_of(optimizer) or distribution_of(getattr(optimizer, "inner_optimizer", None)):
        raise UsageError("this optimizer is distributed already: wrap it once")
    if op not in (Average, Sum, Adasum):
        raise UsageError(f"DistributedOptimizer has op Average, Sum and Adasum, not {op}")
    if predivides and op is not Average:
        raise UsageError("gradient_predivide_factor is for op=hvd.Average alone")


def _wrapped(optimizer: Any, distribution: Distribution) -> Any:
    _exchange_before_loss_scaling()
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
