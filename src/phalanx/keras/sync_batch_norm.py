"""Batch normalisation over the batches of all ranks, as if they were one."""

from typing import Any, final

from phalanx.errors import UsageError
from phalanx.horovod.api.process_sets import ProcessSet, global_process_set
from phalanx.horovod.engine.reductions import Sum
from phalanx.keras.collectives import allreduce
from phalanx.keras.presence import keras

ops: Any = keras.ops


@final
@keras.saving.register_keras_serializable(package="phalanx")
class SyncBatchNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]
    """`keras.layers.BatchNormalization`, whose statistics in training are those of all ranks.

    Ranks may have batches of different sizes. Takes the layer's options; `fused`, which TensorFlow
    once had, cannot be true. A saved model is read where `phalanx.keras` has been imported.
    """

    def __init__(
        self, fused: bool | None = False, process_set: ProcessSet = global_process_set,
        **options: Any,
    ) -> None:  # fmt: skip
        if fused is not False:
            raise UsageError("SyncBatchNormalization does not support fused=True")
        if options.get("synchronized"):
            raise UsageError(
                "synchronized=True is for tf.distribute: SyncBatchNormalization takes the "
                "statistics of all ranks without it"
            )
        super().__init__(**options)
        self.process_set = process_set

    def _moments(self, inputs: Any, mask: Any) -> Any:
        """Collective. Mean and variance over the samples of all ranks."""
        mean, variance = super()._moments(inputs, mask)
        if self.process_set.size() == 1:
            return mean, variance
        count = ops.zeros_like(mean) + self._count(inputs, mask)
        total, sums = self._sums([count, count * mean])
        mean_of_all = sums / total
        (squares,) = self._sums([count * (variance + ops.square(mean - mean_of_all))])
        return mean_of_all, squares / total

    def _sums(self, values: list[Any]) -> list[Any]:
        stacked = allreduce(ops.stack(values), op=Sum, process_set=self.process_set)
        return [stacked[number] for number in range(len(values))]

    def _count(self, inputs: Any, mask: Any) -> Any:
        """How many values a channel this rank has."""
        if mask is None:
            return ops.cast(ops.size(inputs), inputs.dtype) / inputs.shape[self.axis]
        return ops.sum(ops.cast(ops.broadcast_to(mask, ops.shape(inputs)[:-1]), inputs.dtype))
