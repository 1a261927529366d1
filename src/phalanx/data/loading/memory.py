"""Memory that a worker has in common with its rank, without a name: nothing of it stays behind."""

import mmap
import os
import weakref
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np

from phalanx.data.loading.packing import Packed, Span, layout

_NAME = "phalanx-samples"


def new_memory(size: int) -> int:
    """The descriptor of so many bytes."""
    descriptor = os.memfd_create(_NAME, os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def write_apart(packed: Packed) -> tuple[int, list[Span]]:
    """The text and all buffers in memory of their own, and where they are."""
    parts = [memoryview(packed.text), *packed.buffers]
    spans = layout([part.nbytes for part in parts])
    descriptor = new_memory(max(spans[-1].stop, 1))
    try:
        with mmap.mmap(descriptor, 0) as room:
            for span, part in zip(spans, parts, strict=True):
                room[span.start : span.stop] = part
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, spans


def read_apart(descriptor: int, spans: Sequence[Span]) -> list[memoryview]:
    """What `write_apart` wrote. Workers have it in common until one writes to it."""
    room = memoryview(mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE))
    return [room[span.start : span.stop] for span in spans]


class Put(NamedTuple):
    """Where buffers are: in which slot, and its descriptor if it is new to the rank."""

    slot: int | None = None
    spans: Sequence[Span] = ()
    new: int | None = None
    #: A slot that is no more.
    dropped: int | None = None


@final
class Slots:
    """A worker's side: room for batches, used again as soon as the rank has dropped what was there.

    Fresh memory would have to be filled with zeros by the kernel first, page by page.
    """

    def __init__(self) -> None:
        self._rooms: dict[int, mmap.mmap] = {}
        self._free: list[int] = []
        self._made = 0

    def free(self, slots: Sequence[int]) -> None:
        """The rank does not look at these any more."""
        self._free.extend(slots)

    def put(self, buffers: Sequence[memoryview]) -> Put:
        """Copy buffers to where the rank can see them."""
        spans = layout([buffer.nbytes for buffer in buffers])
        if not spans:
            return Put()
        size = spans[-1].stop
        fitting = [slot for slot in self._free if len(self._rooms[slot]) >= size]
        slot, new, dropped = fitting[0] if fitting else None, None, None
        if slot is None:
            if self._free:  # it is too small; others of its size will be, too
                dropped = self._free.pop()
                del self._rooms[dropped]
            slot, new = self._make(size)
        else:
            self._free.remove(slot)
        room = self._rooms[slot]
        for span, buffer in zip(spans, buffers, strict=True):
            room[span.start : span.stop] = buffer
        return Put(slot, spans, new, dropped)

    def _make(self, size: int) -> tuple[int, int]:
        descriptor = new_memory(size + size // 8)  # the next batch may be a little larger
        self._made += 1
        self._rooms[self._made] = mmap.mmap(descriptor, 0)
        return self._made, descriptor


@final
class SeenSlots:
    """A rank's side of them."""

    def __init__(self) -> None:
        self._rooms: dict[int, mmap.mmap] = {}
        #: What nobody looks at any more, for the worker to be told.
        self.freed: deque[int] = deque()

    def look(self, put: Put) -> list[memoryview]:
        """Buffers that a worker has put there; its slot is free once all of them are gone."""
        if put.slot is None:
            return []
        if put.dropped is not None:
            del self._rooms[put.dropped]
        if put.new is not None:
            self._rooms[put.slot] = mmap.mmap(put.new, 0)
        # An array, because it knows when it is gone. Views hold on to it, if they are memoryviews:
        # those of NumPy would hold on to what lies below it.
        room = np.frombuffer(self._rooms[put.slot], dtype=np.uint8)
        weakref.finalize(room, self.freed.append, put.slot).atexit = False
        whole = room.data
        return [whole[span.start : span.stop] for span in put.spans]
