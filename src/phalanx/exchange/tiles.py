"""Numbers and the bytes they are packed in, cut in tiles that stay in a core's cache."""

from typing import NamedTuple

from torch import Tensor

from phalanx.exchange.formats import Format

#: Numbers that are packed together in CPU memory.
_TILE = 32768
#: Packed tiles begin at multiples of so many bytes.
_ALIGNMENT = 8


class Tile(NamedTuple):
    """Some numbers, what was lost of them before, and where they are packed."""

    values: Tensor
    lost: Tensor | None
    packed: Tensor


def tile_of(tensor: Tensor) -> int:
    """The numbers of a tensor that are packed together: on a GPU, where each tile is one more
    kernel to start, all of them."""
    return _TILE if tensor.is_cpu else max(1, tensor.numel())


def room_of(format_: Format, part: slice, *, tile: int) -> int:
    """The bytes that a part takes, tile by tile."""
    count: int = part.stop - part.start
    full, rest = divmod(count, tile)
    return full * _aligned(format_, tile) + (_aligned(format_, rest) if rest else 0)


def cut_in_tiles(
    format_: Format, tensor: Tensor, part: slice, *, place: Tensor, lost: Tensor | None = None
) -> list[Tile]:
    """The tiles of a part of a tensor, which are packed in `place`."""
    tiles = []
    used = 0
    tile = tile_of(tensor)
    for start in range(part.start, part.stop, tile):
        where = slice(start, min(start + tile, part.stop))
        count = where.stop - where.start
        packed = place[used : used + format_.room(count)]
        tiles.append(Tile(tensor[where], None if lost is None else lost[where], packed))
        used += _aligned(format_, count)
    return tiles


def pack(format_: Format, tiles: list[Tile]) -> None:
    """Pack them, with what was lost of them before; what is lost now takes its place."""
    for values, lost, packed in tiles:
        if lost is None:
            format_.pack(values, packed)
        else:
            lost.add_(values)
            format_.pack(lost, packed)


def _aligned(format_: Format, count: int) -> int:
    return -(-format_.room(count) // _ALIGNMENT) * _ALIGNMENT
