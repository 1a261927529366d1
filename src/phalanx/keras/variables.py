"""The same weights everywhere: broadcast them, or load a model and go on with its training."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from phalanx.errors import UsageError
from phalanx.horovod.api.collectives import broadcast_
from phalanx.horovod.api.process_sets import ProcessSet, global_process_set
from phalanx.horovod.engine.compression import Compression
from phalanx.keras.bridge import as_array, as_tensor
from phalanx.keras.optimizer import DistributedOptimizer, distribution_of
from phalanx.keras.presence import keras


def broadcast_global_variables(
    root_rank: int, model: Any, process_set: ProcessSet = global_process_set
) -> None:
    """Collective. Give all ranks the root's weights, and the state of a model's optimizer.

    Takes a model, or some variables. Keras 3 has no global list of them, so they must be given.
    """
    variables = _variables(model)
    by_dtype: dict[str, list[Any]] = {}
    for variable in variables:
        by_dtype.setdefault(keras.backend.standardize_dtype(variable.dtype), []).append(variable)
    for dtype, some in by_dtype.items():
        values = [as_tensor(keras.ops.convert_to_numpy(variable.value)) for variable in some]
        flat = torch.cat([value.flatten() for value in values])
        broadcast_(flat, root_rank, f"variables.{dtype}", process_set)
        pieces = torch.split(flat, [value.numel() for value in values])
        for variable, piece, value in zip(some, pieces, values, strict=True):
            variable.assign(as_array(piece.view(value.shape)))


def _variables(model: Any) -> Sequence[Any]:
    if isinstance(model, keras.Model):
        optimizer = getattr(model, "optimizer", None)
        # Not the states of random generators: those may differ from rank to rank.
        return [*model.weights, *(optimizer.variables if optimizer is not None else ())]
    if isinstance(model, keras.Layer):
        return list(model.weights)
    if isinstance(model, keras.optimizers.Optimizer):
        return list(model.variables)
    variables = list(model) if isinstance(model, Iterable) else []
    if not variables or not all(isinstance(one, keras.Variable) for one in variables):
        raise UsageError(
            f"broadcast_global_variables takes a model or a list of variables, not {model!r}"
        )
    return variables


def load_model(
    filepath: Any,
    custom_optimizers: Iterable[type] | None = None,
    custom_objects: dict[str, Any] | None = None,
    compression: Any = Compression.none,
    **options: Any,
) -> Any:
    """The model in a file, with its optimizer's state, wrapped in `DistributedOptimizer` anew.

    `custom_optimizers` are optimizers of one's own that the file may name; further options are
    those of `DistributedOptimizer`.
    """
    named = {cls.__name__: cls for cls in custom_optimizers or ()}
    model = keras.models.load_model(filepath, custom_objects=named | (custom_objects or {}))
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and distribution_of(optimizer) is None:
        DistributedOptimizer(optimizer, compression=compression, **options)
    return model
