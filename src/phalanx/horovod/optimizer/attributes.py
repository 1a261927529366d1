"""What clients of Horovod read from a DistributedOptimizer, under the names that it has there."""

from typing import Any

from torch import nn
from torch.optim import Optimizer

from phalanx.horovod.api.process_sets import ProcessSet
from phalanx.horovod.engine.reductions import ReduceOp
from phalanx.horovod.optimizer.wrapped import Wrapped


class HorovodAttributes(Optimizer):
    """All for reading alone; those with an underscore are private to Horovod, and read anyway."""

    _distributed: Wrapped

    @property
    def backward_passes_per_step(self) -> int:
        """How many backward passes are expected before each step."""
        return self._distributed.exchange.passes

    @property
    def op(self) -> ReduceOp:
        """How gradients are combined."""
        return self._distributed.options.op

    @property
    def process_set(self) -> ProcessSet:
        """The ranks that gradients are combined over."""
        return self._distributed.options.process_set

    @property
    def gradient_predivide_factor(self) -> float:
        """What gradients are divided by before they are added up."""
        return self._distributed.options.predivide

    @property
    def sparse_as_dense(self) -> bool:
        """Whether sparse gradients travel as dense ones."""
        return self._distributed.options.sparse_as_dense

    @property
    def _compression(self) -> Any:
        return self._distributed.options.compression

    @property
    def _parameter_names(self) -> dict[nn.Parameter, str]:
        return dict(self._distributed.names)

    @property
    def _requires_update(self) -> set[nn.Parameter]:
        """The parameters whose gradients are exchanged."""
        return {parameter for _, parameter in self._distributed.trainable()}

    @property
    def _handles(self) -> dict[nn.Parameter, tuple[None, None]]:
        """The parameters that got a gradient since the last exchange; what travels has no handle
        of its own here."""
        return dict.fromkeys(self._distributed.exchange.arrivals(), (None, None))

    @property
    def _synchronized(self) -> bool:
        return self._distributed.synchronized

    @property
    def _should_synchronize(self) -> bool:
        return self._distributed.should_synchronize
