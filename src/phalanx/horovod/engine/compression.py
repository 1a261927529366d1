"""What tensors travel as."""

from abc import ABC, abstractmethod
from typing import Any, final

import torch
from torch import Tensor


class Compressor(ABC):
    """Makes a tensor smaller before it travels, and what came of it as it was afterwards.

    Anything with these two methods will do, static or not.
    """

    @staticmethod
    @abstractmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        """What travels, and what `decompress` needs to know."""

    @staticmethod
    @abstractmethod
    def decompress(tensor: Tensor, ctx: Any) -> Tensor:
        """The result, as the caller expects it."""


@final
class NoneCompressor(Compressor):
    """Leaves tensors as they are."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: Tensor, ctx: Any) -> Tensor:
        return tensor


@final
class FP16Compressor(Compressor):
    """Floating point travels in half precision."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        small = tensor.to(torch.float16) if tensor.is_floating_point() else tensor
        return small, tensor.dtype

    @staticmethod
    def decompress(tensor: Tensor, ctx: Any) -> Tensor:
        return tensor.to(ctx)


class Compression:
    """The choices for `compression=`."""

    none = NoneCompressor
    fp16 = FP16Compressor
