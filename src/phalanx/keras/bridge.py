"""The way out of a training step, compiled or not, to a function on this process's host and back.

A function on the host gets arrays and returns tensors of the same shapes and dtypes. Where the step
is compiled the call becomes a part of it: once a step, in order, and never left out. What has a
gradient of its own is in `differentiable.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from phalanx.errors import UsageError
from phalanx.keras.presence import backend, keras

#: Takes CPU tensors or arrays, which it must not change; returns tensors of the same kinds.
HostFunction = Callable[..., Sequence[Tensor]]


def call(function: HostFunction, tensors: Sequence[Any], *more: Any) -> list[Any]:
    """What `function` makes of the tensors; `more` are small ones that it needs to know."""
    ways = {"torch": _from_torch, "jax": _from_jax, "tensorflow": _from_tensorflow}
    results: list[Any] = ways[backend()](function, tensors, more)
    return results


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _from_torch(
    function: HostFunction, tensors: Sequence[Tensor], more: Sequence[Any]
) -> list[Tensor]:
    with torch.no_grad():
        results = function(
            [tensor.detach().cpu() for tensor in tensors], *(one.detach().cpu() for one in more)
        )
        return [new.to(old.device) for new, old in zip(results, tensors, strict=True)]


def _from_jax(function: HostFunction, tensors: Sequence[Any], more: Sequence[Any]) -> list[Any]:
    import jax

    count = len(tensors)

    @remembered
    def on_host(*values: Any) -> list[Any]:
        arrays = [np.asarray(value) for value in values]
        return [as_array(result) for result in function(arrays[:count], *arrays[count:])]

    if not any(isinstance(one, jax.core.Tracer) for one in (*tensors, *more)):
        # JAX would keep a result as it is, and the memory is used again in the next step.
        return [jax.numpy.array(result) for result in on_host(*tensors, *more)]
    from jax.experimental import io_callback

    shapes = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in tensors]
    return list(io_callback(on_host, shapes, *tensors, *more, ordered=True))


def _from_tensorflow(
    function: HostFunction, tensors: Sequence[Any], more: Sequence[Any]
) -> list[Any]:
    import tensorflow as tf

    _refuse_xla(tf)
    count = len(tensors)

    @remembered
    def on_host(*arrays: Any) -> list[Any]:
        results = function(arrays[:count], *arrays[count:])
        # TensorFlow takes an array's memory for its own, and ours is used again in the next step.
        return [as_array(result).copy() for result in results]

    if tf.executing_eagerly():
        results = on_host(*(one.numpy() for one in (*tensors, *more)))
        return [tf.convert_to_tensor(result) for result in results]
    with _after_the_last(tf) as graph:
        results = tf.numpy_function(on_host, [*tensors, *more], [one.dtype for one in tensors])
        _last_calls[graph] = results[0].op.name
    for new, old in zip(results, tensors, strict=True):
        new.set_shape(old.shape)
    return list(results)


#: The last call of each graph, by name: the operation itself would keep its graph alive.
_last_calls: "WeakKeyDictionary[Any, str]" = WeakKeyDictionary()


@contextmanager
def _after_the_last(tf: Any) -> Iterator[Any]:
    """Inside, operations wait for the graph's last call: ranks must make theirs in one order."""
    graph = tf.compat.v1.get_default_graph()
    name = _last_calls.get(graph)
    with tf.control_dependencies([] if name is None else [graph.get_operation_by_name(name)]):
        yield graph


def _refuse_xla(tf: Any) -> None:
    """XLA compiles no calls to Python for TensorFlow, and would say so in a thousand words."""
    try:
        from tensorflow.python.ops import control_flow_util
    except ImportError:  # not a public name; without it XLA's own words must do
        return
    if control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
        raise UsageError(
            "TensorFlow's XLA cannot exchange gradients in the middle of a training step: "
            "use model.compile(..., jit_compile=False). (With a GPU Keras takes XLA by itself; the "
            "JAX backend, KERAS_BACKEND=jax, compiles with XLA and exchanges too.)"
        )


def is_symbolic(value: Any) -> bool:
    """Whether a value stands for one that a step being compiled will have."""
    if isinstance(value, keras.KerasTensor):
        return True
    if backend() == "jax":
        import jax

        return isinstance(value, jax.core.Tracer)
    if backend() == "tensorflow":
        import tensorflow as tf

        return bool(tf.is_symbolic_tensor(value))
    return False


#: What a function on the host raised last: out of a compiled step it comes as the backend's error.
_raised: list[Exception] = []


def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, of whose error `cause_of` knows."""

    @wraps(function)
    def remembering(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            _raised[:] = [error]
            raise

    return remembering


def cause_of(error: Exception) -> Exception:
    """What was raised on the host, if a backend's error tells of it; else the error itself."""
    if not _raised or not str(_raised[0]) or str(_raised[0]) not in str(error):
        return error
    return _raised.pop()


def as_array(tensor: Tensor) -> "np.ndarray[Any, Any]":
    """A CPU tensor's memory as an array; bfloat16, which numpy lacks, by the type that JAX has."""
    if tensor.dtype is not torch.bfloat16:
        return tensor.numpy()
    import ml_dtypes

    return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)


def as_tensor(array: "np.ndarray[Any, Any]") -> Tensor:
    """A copy of an array as a tensor."""
    if array.dtype.name != "bfloat16":
        return torch.from_numpy(np.array(array))
    return torch.from_numpy(np.array(array).view(np.int16)).view(torch.bfloat16)
