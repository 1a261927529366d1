"""The same weights everywhere: what the root has, broadcast to all ranks."""

import gc
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from phalanx.errors import MismatchError, UsageError
from phalanx.horovod.api.basics import rank
from phalanx.horovod.api.collectives import broadcast_
from phalanx.horovod.api.functions import allgather_object
from phalanx.horovod.api.process_sets import ProcessSet, global_process_set
from phalanx.keras.bridge import as_array, as_tensor
from phalanx.keras.presence import backend, keras


def broadcast_global_variables(
    root_rank: int, model: Any = None, process_set: ProcessSet = global_process_set
) -> None:
    """Collective. Give all ranks the root's weights, and the state of a model's optimizer.

    Of a model, of some variables, or of all variables of Keras that there are in this process: of
    all models, layers and optimizers, but for metrics and the states of random generators. Those
    match by their names, so all ranks must have made the same models in the same order.
    """
    if model is not None:
        broadcast_variables(_variables(model), root_rank, process_set)
        return
    everything = sorted(_everything(), key=lambda one: str(one.path))
    names = [str(one.path) for one in everything]
    _compare(names, "models or optimizers", process_set)
    _refuse_same(names)
    broadcast_variables(everything, root_rank, process_set)


def broadcast_variables(
    variables: Any, root_rank: int, process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> None:  # fmt: skip
    """Collective. Give all ranks the root's values of some variables: `model.variables`,
    `optimizer.variables`, or those of a model with its optimizer, given itself.

    They match by their order. It is always done in place.
    """
    found = _variables(variables)
    looks = [f"{_dtype(one)}{list(one.shape)}" for one in found]
    _compare(looks, "variables", process_set)
    by_dtype: dict[str, list[Any]] = {}
    for variable in found:
        by_dtype.setdefault(_dtype(variable), []).append(variable)
    for dtype, some in by_dtype.items():
        values = [as_tensor(keras.ops.convert_to_numpy(variable)) for variable in some]
        flat = torch.cat([value.flatten() for value in values])
        broadcast_(flat, root_rank, f"variables.{dtype}", process_set)
        pieces = torch.split(flat, [value.numel() for value in values])
        for variable, piece, value in zip(some, pieces, values, strict=True):
            variable.assign(as_array(piece.view(value.shape)))


def _dtype(variable: Any) -> str:
    return str(keras.backend.standardize_dtype(variable.dtype))


def _compare(own: Sequence[str], what: str, process_set: ProcessSet) -> None:
    """Collective. Refuse ranks that bring different things, before any of them changes."""
    for number, other in enumerate(allgather_object(list(own), "variables.looks", process_set)):
        if other == list(own):
            continue
        pairs = zip(other, own, strict=False)
        theirs, ours = next(
            ((one, two) for one, two in pairs if one != two), (len(other), len(own))
        )
        raise MismatchError(
            f"ranks must broadcast the same {what} in the same order: rank "
            f"{process_set.ranks[number]} has {theirs} where rank {rank()} has {ours}"
        )


def _everything() -> list[Any]:
    """All variables of Keras, but for those that ranks may differ in."""
    gc.collect()  # models refer to themselves: those that nobody needs are there until now
    found = gc.get_objects()
    apart = {
        id(variable)
        for one in found
        if issubclass(type(one), keras.metrics.Metric | keras.random.SeedGenerator)
        for variable in ([one.state] if hasattr(one, "state") else one.variables)
    }
    variables = [one for one in found if issubclass(type(one), keras.Variable)]
    return [one for one in variables if id(one) not in apart]


def _refuse_same(names: Sequence[str]) -> None:
    """What matches by names needs different ones."""
    name, count = max(Counter(names).items(), key=lambda one: one[1], default=("", 0))
    if count > 1:
        raise UsageError(
            f"broadcast_global_variables(root_rank) finds {count} variables of the name '{name}', "
            "and cannot tell which of them go together: give each model and each optimizer a name "
            "of its own, or name the variables: broadcast_variables(model.variables, root_rank)"
        )


def _variables(given: Any) -> Sequence[Any]:
    if isinstance(given, keras.Model):
        optimizer = getattr(given, "optimizer", None)
        # Not the states of random generators: those may differ from rank to rank.
        return [*given.weights, *(optimizer.variables if optimizer is not None else ())]
    if isinstance(given, keras.Layer):
        return list(given.weights)
    if isinstance(given, keras.optimizers.Optimizer):
        return list(given.variables)
    variables = list(given) if isinstance(given, Iterable) else [given]
    for one in variables:
        if not isinstance(one, _kinds()):
            raise UsageError(
                f"broadcast_variables takes variables, a model or an optimizer, not {one!r}"
            )
    return variables


def _kinds() -> tuple[type, ...]:
    if backend() != "tensorflow":
        return (keras.Variable,)
    import tensorflow as tf

    return (keras.Variable, tf.Variable)
