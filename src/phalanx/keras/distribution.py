"""What a wrapped optimizer does differently: where gradients are combined in a training step.

The optimizer's `apply` is where every training step of Keras brings its gradients: compiled by JAX
or TensorFlow, run by torch, or written by a user. So a subclass overrides it, and the exchange is a
part of the step that gets compiled.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, final

from phalanx.errors import UsageError
from phalanx.keras.exchange import HostExchange
from phalanx.keras.gradients import combined
from phalanx.keras.local import LocalVariables
from phalanx.keras.presence import keras

LossScaleOptimizer: Any = keras.optimizers.LossScaleOptimizer


@final
class Distribution:
    """What a wrapped optimizer knows besides what it wraps."""

    def __init__(
        self, host: HostExchange, local: LocalVariables, *, scale_local_gradients: bool
    ) -> None:
        self.host = host
        self.local = local
        self.scales_local = scale_local_gradients
        #: Whether gradients have been exchanged already by whoever calls.
        self.done = False

    def exchange(
        self, gradients: Sequence[Any], optimizer: Any, variables: Any = None
    ) -> list[Any]:
        """Collective. The gradients of all ranks combined; those that are None stay None.

        They belong to `variables`, or to those that the optimizer was built with.
        """
        passes, host = self.host.passes, self.host
        summed = passes.number > 1 and not passes.averaged
        factor = float(passes.number) if summed else 1.0
        if host.is_alone:
            return combined(host, gradients, [True] * len(gradients), local_factor=factor)
        if self.scales_local:
            factor /= host.options.process_set.size()
        more = (_passes_done(optimizer),) if passes.number > 1 else ()
        local = self._which_are_local(gradients, optimizer, variables)
        return combined(host, gradients, local, local_factor=factor, more=more)

    def _which_are_local(
        self, gradients: Sequence[Any], optimizer: Any, variables: Any
    ) -> list[bool]:
        if not self.local.are_some:
            return [False] * len(gradients)
        check_local(optimizer)
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        return self.local.among(inner._trainable_variables if variables is None else variables)

    @contextmanager
    def exchanged(self) -> Iterator[None]:
        """Inside, the optimizer takes its gradients as they are."""
        before, self.done = self.done, True
        try:
            yield
        finally:
            self.done = before


def check_local(optimizer: Any) -> None:
    """Refuse what would make a rank's step depend on gradients that no other rank has."""
    if isinstance(optimizer, LossScaleOptimizer):
        raise UsageError(
            "local layers do not go together with the scaled losses of mixed_float16: an overflow "
            "in the gradients of one rank alone would have it leave out a step that the others "
            "take; use mixed_bfloat16 or float32"
        )
    if getattr(optimizer, "global_clipnorm", None) is not None:
        raise UsageError(
            "local layers do not go together with global_clipnorm: each rank would clip the "
            "gradients that all share by a norm of its own; use clipnorm or clipvalue"
        )


def _passes_done(optimizer: Any) -> Any:
    """How many passes an optimizer has seen; its public `iterations` counts updates."""
    return getattr(optimizer, "inner_optimizer", optimizer)._iterations.value


class DistributedMethods:
    """What a wrapped optimizer does differently. Its class is this one and the wrapped one's."""

    _distribution: Distribution

    def apply(self: Any, grads: Sequence[Any], trainable_variables: Any = None) -> Any:
        """Collective. Combine the gradients, and update the variables."""
        if not self._distribution.done:
            if trainable_variables is not None:
                trainable_variables = list(trainable_variables)
            grads = self._distribution.exchange(grads, self, trainable_variables)
        return super().apply(grads, trainable_variables)  # type: ignore[misc]

    def register_local_var(self, var: Any) -> None:
        """Let a variable be this rank's own: its gradients do not travel."""
        self._distribution.local.add(var)
        check_local(self)


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
def exchange_before_loss_scaling() -> None:
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
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
        grads = inner.exchange(grads, self, trainable_variables)
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
