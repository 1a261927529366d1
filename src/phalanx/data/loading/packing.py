"""Nests of tensors as bytes: a short text by pickle, and the memory of the tensors as it is.

What is unpacked has the bits, the strides and the alignment of what was packed, so that nobody can
tell it from what was made here. Between a rank and its own workers alone: pickle trusts its text.
"""

import io
import math
import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

import cloudpickle
import torch
from torch import Tensor

#: As torch aligns the memory of tensors: the last bits of a product may depend on it.
_ALIGNMENT = 64
#: Tensors of fewer bytes go with the text.
_SMALL = 2048


class Packed(NamedTuple):
    """The text, and the memory that belongs to it."""

    text: bytes
    buffers: list[memoryview]


class Span(NamedTuple):
    """Where a buffer lies among others."""

    start: int
    stop: int


def pack(value: Any) -> Packed:
    """Whatever cloudpickle takes; tensors are not copied yet."""
    text, buffers = io.BytesIO(), list[memoryview]()

    def goes_with_the_text(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _SMALL:
            return True
        buffers.append(raw)
        return False

    _Pickler(text, protocol=5, buffer_callback=goes_with_the_text).dump(value)
    return Packed(text.getvalue(), buffers)


def unpack(text: bytes | memoryview, buffers: Sequence[memoryview]) -> Any:
    """What was packed; its tensors are in the memory of the buffers."""
    return pickle.loads(text, buffers=buffers)


def layout(sizes: Sequence[int], start: int = 0) -> list[Span]:
    """Places for buffers of these sizes, one after the other and aligned."""
    spans = []
    for size in sizes:
        start = -(-start // _ALIGNMENT) * _ALIGNMENT
        spans.append(Span(start, start + size))
        start += size
    return spans


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Takes tensors by their memory; torch's own way copies it several times."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is Tensor and _is_plain(value):
            strides = value.stride()
            order = sorted(range(len(strides)), key=lambda one: -strides[one])
            dense = value.permute(order)
            if dense.is_contiguous():
                memory = dense.reshape(-1).view(torch.uint8).numpy().data
                parts = (pickle.PickleBuffer(memory), value.dtype, tuple(dense.shape), order)
                return _made_again, parts
        return super().reducer_override(value)


def _is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is nothing but its numbers."""
    odd = tensor.requires_grad or tensor.is_quantized or tensor.is_conj() or tensor.is_neg()
    return tensor.device.type == "cpu" and tensor.layout is torch.strided and not odd


def _made_again(
    memory: bytearray | memoryview, dtype: torch.dtype, shape: tuple[int, ...], order: list[int]
) -> Tensor:
    if math.prod(shape) == 0:
        dense = torch.empty(shape, dtype=dtype)
    else:
        dense = torch.frombuffer(memory, dtype=dtype).view(shape)
        if isinstance(memory, bytearray):  # it came with the text
            dense = dense.clone()
    return dense.permute([order.index(one) for one in range(len(order))])
