"""Operations on the host through which gradients flow, in a compiled step or outside of one.

On torch the operations of `phalanx.horovod.torch` are known to autograd already. JAX and TensorFlow
are told what to do with a gradient: the host has a function for it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from phalanx.keras.bridge import as_array, as_tensor, call, is_symbolic
from phalanx.keras.presence import backend, keras

#: Takes a tensor, returns another one; collective.
Operation = Callable[[Tensor], Tensor]


def same_shape(operation: Operation, backward: Operation, value: Any) -> Any:
    """An operation whose result looks as its argument does, and what it does with gradients."""
    if backend() == "torch":
        return torch.empty_like(value) if value.is_meta else _on_torch(operation, value)
    if not _is_floating(value):
        return call(_on_host(operation), [value])[0]
    way = _jax_function if backend() == "jax" else _tensorflow_function
    return way(_on_host(operation), _on_host(backward))(value)


def any_shape(operation: Operation, value: Any, *, rows: Callable[[int], int]) -> Any:
    """An operation whose result has other rows, about so many: outside of compiled steps alone."""
    if backend() == "torch":
        if value.is_meta:  # Keras asks for shapes before a training begins
            return torch.empty(
                (rows(len(value)), *value.shape[1:]), dtype=value.dtype, device="meta"
            )
        return _on_torch(operation, value)
    if backend() == "jax":
        import jax

        return jax.numpy.array(as_array(operation(as_tensor(_numpy(value)))))
    return _by_tape(operation, value)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _on_torch(operation: Operation, value: Tensor) -> Tensor:
    return operation(value)


def _on_host(operation: Operation) -> Callable[..., list[Tensor]]:
    def on_host(tensors: Any) -> list[Tensor]:
        (own,) = tensors
        return [operation(as_tensor(own))]

    return on_host


def _is_floating(value: Any) -> bool:
    return "float" in str(value.dtype)


def _numpy(value: Any) -> Any:
    return keras.ops.convert_to_numpy(value)


def _jax_function(forward: Any, backward: Any) -> Callable[[Any], Any]:
    import jax

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def operation(value: Any) -> Any:
        if not is_symbolic(value):
            return call(forward, [value])[0]
        # Without a gradient: JAX takes no ordered effects here.
        shape = jax.ShapeDtypeStruct(value.shape, value.dtype)
        return jax.pure_callback(lambda own: as_array(forward([own])[0]), shape, value)

    operation.defvjp(
        lambda value: (call(forward, [value])[0], None),
        lambda _kept, gradient: (call(backward, [gradient])[0],),
    )
    return operation  # type: ignore[no-any-return]


def _tensorflow_function(forward: Any, backward: Any) -> Callable[[Any], Any]:
    import tensorflow as tf

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def operation(value: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            return call(backward, [tf.convert_to_tensor(upstream)])[0]

        return call(forward, [value])[0], gradient

    return operation  # type: ignore[no-any-return]


def _by_tape(operation: Operation, value: Any) -> Any:
    """Eagerly: torch remembers how to go back, and TensorFlow's tape asks it."""
    import tensorflow as tf

    own = as_tensor(_numpy(value)).requires_grad_(_is_floating(value))
    result = operation(own)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def known_to_the_tape(_value: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            given = as_tensor(tf.convert_to_tensor(upstream).numpy())
            (back,) = torch.autograd.grad(result, own, given, retain_graph=True)
            return tf.convert_to_tensor(as_array(back))

        return tf.convert_to_tensor(as_array(result.detach())), gradient

    return known_to_the_tape(value)
