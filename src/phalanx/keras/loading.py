"""A model out of a file, to go on with its training on many ranks."""

from collections.abc import Iterable
from typing import Any

from phalanx.errors import UsageError
from phalanx.horovod.engine.compression import Compression
from phalanx.keras.distribution import distribution_of
from phalanx.keras.optimizer import DistributedOptimizer
from phalanx.keras.presence import keras


def load_model(
    filepath: Any,
    custom_optimizers: Iterable[type] | None = None,
    custom_objects: dict[str, Any] | None = None,
    compression: Any = Compression.none,
    legacy_opts: bool = False,
    **options: Any,
) -> Any:
    """The model in a file, with its optimizer's state, wrapped in `DistributedOptimizer` anew.

    `custom_optimizers` are optimizers of one's own that the file may name; further options are
    those of `DistributedOptimizer`. `legacy_opts` asks for optimizers that Keras 3 has not.
    """
    if legacy_opts:
        raise UsageError(
            "load_model(legacy_opts=True) asks for tf.keras.optimizers.legacy, which Keras 3 does "
            "not have: leave it out, and the model gets the optimizer of the same name"
        )
    for one in custom_optimizers or ():
        if not isinstance(one, type):
            raise UsageError(f"custom_optimizers takes classes of optimizers, not {one!r}")
    named = {cls.__name__: cls for cls in custom_optimizers or ()}
    model = keras.models.load_model(filepath, custom_objects=named | (custom_objects or {}))
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and distribution_of(optimizer) is None:
        DistributedOptimizer(optimizer, compression=compression, **options)
    return model
