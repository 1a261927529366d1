"""What a rank asks for: the description that the others see, and what stays at home."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from phalanx.comm.buffers import DTYPES
from phalanx.comm.device.streams import mark
from phalanx.errors import UsageError

Shape = tuple[int, ...]
_NAMES = {getattr(torch, name): name for name in DTYPES}


class Description(NamedTuple):
    """One rank's part in an operation, as the other ranks learn of it."""

    #: Ranks that give the same name mean the same operation.
    name: str
    verb: str
    dtypes: tuple[str, ...] = ()
    shapes: tuple[Shape, ...] = ()
    op: str = ""
    root: int = -1
    prescale: float = 1.0
    postscale: float = 1.0
    #: Rows for each rank, where the caller gave them.
    splits: tuple[int, ...] | None = None
    #: What an `open` is about.
    details: Any = None
    #: Why this rank cannot take part: its own arguments are wrong.
    refused: str = ""

    def brought(self) -> str:
        """The tensors as messages name them: float32[10, 3]."""
        tensors = zip(self.dtypes, self.shapes, strict=True)
        return ", ".join(f"{dtype}{list(shape)}" for dtype, shape in tensors) or "nothing"


@final
class Pending:
    """An operation that this rank has asked for."""

    __slots__ = ("description", "done", "error", "in_place", "marks", "result", "since", "tensors")

    def __init__(
        self, description: Description, tensors: Sequence[Tensor] = (), *, in_place: bool = False
    ) -> None:
        self.description = description
        self.tensors = tensors
        self.in_place = in_place
        #: What the caller has under way on GPUs.
        self.marks = mark(tensors)
        #: Outputs, one for each tensor; for some verbs something else.
        self.result: Any = None
        self.error: str | None = None
        self.done = False
        self.since = time.perf_counter()


def dtype_names(tensors: Sequence[Tensor]) -> tuple[str, ...]:
    """The names that tensors' dtypes travel under; raises for those that cannot."""
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise UsageError(f"a tensor is needed, not {type(tensor).__name__}")
        if tensor.layout is not torch.strided:
            raise UsageError(
                f"{tensor.layout} tensors are not for this operation; "
                "hvd.sparse_allreduce_async takes sparse ones"
            )
        if tensor.dtype not in _NAMES:
            raise UsageError(f"{tensor.dtype} cannot be sent; known: {', '.join(DTYPES)}")
    return tuple(_NAMES[tensor.dtype] for tensor in tensors)


def shapes_of(tensors: Sequence[Tensor]) -> tuple[Shape, ...]:
    """The tensors' shapes, as plain tuples."""
    return tuple(tuple(tensor.shape) for tensor in tensors)
