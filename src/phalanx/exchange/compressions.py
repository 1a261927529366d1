"""The ways to send less than the gradient, by the names that `--compress` takes.

One more is a `Format` in `_FORMATS`, for numbers that are packed one by one, or another `LossySum`
that `compressed_sum` makes; and its name in `phalanx.strategies.options`.
"""

from collections.abc import Iterator, Sequence

from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.exchange.compression import CompressedSum
from phalanx.exchange.eight_bits import Int8
from phalanx.exchange.flat import FlatBlock
from phalanx.exchange.formats import Format
from phalanx.exchange.four_bits import Int4
from phalanx.exchange.lossy import COMPRESSIBLE, LossySum
from phalanx.exchange.low_rank import LowRankSum, Matrix
from phalanx.exchange.pairs import CompressedPairSum
from phalanx.exchange.sixteen_bits import BFloat16, Float16
from phalanx.exchange.views import dense_strides

LOW_RANK = "low-rank"
DEFAULT_RANK = 2
_FORMATS: dict[str, type[Format]] = {
    "bf16": BFloat16,
    "fp16": Float16,
    "int8": Int8,
    "int4": Int4,
}
COMPRESSIONS = (*_FORMATS, LOW_RANK)


def compressed_sum(
    name: str, comm: Communicator, tensor: Tensor, *, matrices: Sequence[Matrix], rank: int
) -> LossySum:
    """The sum of a tensor in which some `matrices` lie; `rank` is theirs, if it is low."""
    if name == LOW_RANK:
        return LowRankSum(comm, tensor, matrices, rank=rank)
    if comm.size == 2:
        return CompressedPairSum(comm, tensor, _FORMATS[name]())
    return CompressedSum(comm, tensor, _FORMATS[name]())


def share_sent(name: str | None, blocks: Sequence[FlatBlock], *, rank: int) -> float:
    """The bytes that travel as a part of those that the gradients of some blocks have."""
    if name is None:
        return 1.0
    sent = whole = 0.0
    for block in blocks:
        size, length = block.layout.dtype.itemsize, block.layout.length
        whole += size * length
        if block.layout.dtype not in COMPRESSIBLE:
            sent += size * length
        elif name == LOW_RANK:
            paying = [one for one in matrices_in(block, slice(0, length)) if one.pays(rank)]
            saved = sum(one.length - (one.rows + one.columns) * rank for one in paying)
            sent += size * (length - saved)
        else:
            sent += _FORMATS[name]().room(length)
    return sent / whole if whole else 1.0


def matrices_in(block: FlatBlock, where: slice) -> Iterator[Matrix]:
    """The matrices that a stretch of a block's gradient has whole rows of, counted from its first
    element. The farthest dimension of a parameter in memory is its rows."""
    for start, parameter in zip(block.layout.starts, block.layout.parameters, strict=True):
        if parameter.dim() < 2 or parameter.numel() == 0:
            continue
        columns = max(dense_strides(parameter))
        low = max(0, -(-(where.start - start) // columns))
        high = min(parameter.numel(), where.stop - start) // columns
        if low < high:
            yield Matrix(start + low * columns - where.start, high - low, columns)
