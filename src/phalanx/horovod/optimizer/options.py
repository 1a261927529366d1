"""How a DistributedOptimizer is to combine gradients."""

from dataclasses import dataclass
from typing import Any

from phalanx.horovod.api.process_sets import ProcessSet
from phalanx.horovod.engine.compression import Compression
from phalanx.horovod.engine.reductions import Average, ReduceOp, as_op


@dataclass(frozen=True)
class Options:
    """What was asked for."""

    op: ReduceOp
    predivide: float
    compression: Any
    groups: tuple[tuple[str, ...], ...]
    sparse_as_dense: bool
    process_set: ProcessSet

    def __post_init__(self) -> None:
        object.__setattr__(self, "op", as_op(self.op))  # Horovod's callers may give its number

    def described(self) -> str:
        """What must be the same on all ranks, as messages put it."""
        compressor = getattr(self.compression, "__name__", type(self.compression).__name__)
        return (
            f"op {self.op.label}, gradient_predivide_factor {self.predivide:g}, "
            f"compression {compressor} and {len(self.groups)} groups"
        )

    @property
    def divisor(self) -> float:
        """What sums are to be divided by."""
        return self.process_set.size() / self.predivide if self.op is Average else 1.0

    @property
    def is_custom(self) -> bool:
        """Whether the compressor is one that nothing is known of."""
        return self.compression not in (Compression.none, Compression.fp16)
