"""The gradients of one step, combined over the ranks but for those that are local to a rank."""

from collections.abc import Sequence
from math import prod
from typing import Any

from phalanx.horovod.engine.reductions import Adasum
from phalanx.keras.bridge import call
from phalanx.keras.exchange import HostExchange
from phalanx.keras.presence import backend, keras


def combined(
    host: HostExchange,
    gradients: Sequence[Any],
    local: Sequence[bool],
    *,
    local_factor: float,
    more: tuple[Any, ...] = (),
) -> list[Any]:
    """Collective. All ranks' gradients; local ones times a factor. Those that are None stay None.

    `more` is what the exchange on the host must know besides.
    """
    results: list[Any] = [None if one is None else _dense(one) for one in gradients]
    for number, is_local in enumerate(local):
        if is_local and local_factor != 1 and results[number] is not None:
            results[number] = results[number] * local_factor
    shared = [i for i, one in enumerate(results) if one is not None and not local[i]]
    if shared:
        exchanged = _exchanged(host, [results[number] for number in shared], more)
        for number, result in zip(shared, exchanged, strict=True):
            results[number] = result
    return results


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
