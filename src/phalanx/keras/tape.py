"""TensorFlow's GradientTape, whose gradients are combined over the ranks."""

from functools import cache
from typing import Any

from phalanx.errors import UsageError
from phalanx.horovod.api.process_sets import ProcessSet, global_process_set
from phalanx.horovod.engine.compression import Compression
from phalanx.horovod.engine.reductions import Average, ReduceOp
from phalanx.horovod.optimizer.options import Options
from phalanx.keras.exchange import HostExchange, Passes, exchange_options
from phalanx.keras.gradients import combined
from phalanx.keras.local import LocalVariables
from phalanx.keras.presence import backend


def DistributedGradientTape(  # noqa: N802
    gradtape: Any,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """The same tape, whose `gradient` from now on combines gradients over the ranks.

    All gradients travel together, dense and on the host, so `device_dense`, `device_sparse`,
    `sparse_as_dense`, `num_groups` and `groups` change nothing. Sources given to its
    `register_local_source` are local to a rank, as those of `PartialDistributedGradientTape`.
    """
    return PartialDistributedGradientTape(
        gradtape,
        compression=compression,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )


def PartialDistributedGradientTape(  # noqa: N802
    gradtape: Any,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """`DistributedGradientTape` but for some layers, whose gradients stay on their rank.

    They are divided by the number of ranks, as the average of all others is, unless
    `scale_local_gradients` is False.
    """
    _check(gradtape)
    host = _host(
        exchange_options(
            op, gradient_predivide_factor, compression=compression, process_set=process_set
        )
    )
    base = type(gradtape)
    names = {
        "_host": host,
        "_local": LocalVariables(local_layers),
        "_scales_local": scale_local_gradients,
        "__module__": base.__module__,
    }
    gradtape.__class__ = type(base.__name__, (DistributedTapeMethods, base), names)
    return gradtape


@cache
def _host(options: Options) -> HostExchange:
    """One for all tapes of the same options: a loop makes a tape for every step."""
    return HostExchange(options, Passes())


def _check(gradtape: Any) -> None:
    if backend() != "tensorflow":
        raise UsageError(
            f"DistributedGradientTape wraps TensorFlow's tape, and Keras computes with {backend()} "
            "here: wrap the optimizer in DistributedOptimizer, whose `apply` combines gradients in "
            "loops of your own as well, or set the environment variable KERAS_BACKEND=tensorflow"
        )
    import tensorflow as tf

    if not isinstance(gradtape, tf.GradientTape):
        raise UsageError(f"DistributedGradientTape takes a tf.GradientTape, not {gradtape!r}")
    if isinstance(gradtape, DistributedTapeMethods):
        raise UsageError("this tape is distributed already: wrap it once")


class DistributedTapeMethods:
    """What a wrapped tape does differently. Its class is this one and the wrapped one's."""

    _host: HostExchange
    _local: LocalVariables
    _scales_local: bool

    def register_local_source(self, source: Any) -> None:
        """Let a variable be this rank's own: its gradients do not travel."""
        self._local.add(source)

    def gradient(
        self: Any, target: Any, sources: Any, output_gradients: Any = None,
        use_generic_names: bool = False, **options: Any,
    ) -> Any:  # fmt: skip
        """Collective. The gradients of all ranks combined; those that are None stay None.

        Nothing travels under a name, so `use_generic_names` changes nothing.
        """
        import tensorflow as tf

        own = super().gradient(target, sources, output_gradients, **options)  # type: ignore[misc]
        if self._host.is_alone:
            return own
        flat = [sources] if _is_one(sources) else tf.nest.flatten(sources)
        gradients = [own] if _is_one(sources) else tf.nest.flatten(own)
        size = self._host.options.process_set.size()
        results = combined(
            self._host, gradients, self._local.among(flat),
            local_factor=1 / size if self._scales_local else 1.0,
        )  # fmt: skip
        return results[0] if _is_one(sources) else tf.nest.pack_sequence_as(sources, results)


def _is_one(sources: Any) -> bool:
    return not isinstance(sources, list | tuple | dict)
