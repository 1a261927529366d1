"""Slots: used again as soon as nobody looks at what is there, and never before."""

import os

import numpy as np
import torch
from torch import Tensor

from phalanx.data.loading.memory import Put, SeenSlots, Slots
from phalanx.data.loading.packing import Packed, pack, unpack


def read(seen: SeenSlots, packed: Packed, put: Put) -> Tensor:
    """As a rank does."""
    tensor = unpack(packed.text, seen.look(put))
    if put.new is not None:
        os.close(put.new)
    assert isinstance(tensor, Tensor)
    return tensor


def full(number: float, count: int = 1000) -> Packed:
    return pack(torch.full((count,), number))


def test_a_slot_is_used_again_once_its_batch_is_dropped() -> None:
    slots, seen = Slots(), SeenSlots()
    first = full(1.0)
    batch = read(seen, first, put := slots.put(first.buffers))
    view = batch[10:]
    del batch
    assert list(seen.freed) == []  # a view is enough
    del view
    assert list(seen.freed) == [put.slot]
    slots.free([seen.freed.popleft()])
    second = full(2.0)
    again = slots.put(second.buffers)
    assert (again.slot, again.new) == (put.slot, None)
    assert read(seen, second, again).eq(2).all()


def test_what_is_looked_at_is_not_written_over() -> None:
    slots, seen = Slots(), SeenSlots()
    kept = []
    for number in range(5):
        packed = full(float(number))
        kept.append(read(seen, packed, slots.put(packed.buffers)))
    assert [int(one[0]) for one in kept] == [0, 1, 2, 3, 4]
    assert not seen.freed


def test_an_array_holds_on_to_its_slot_as_well() -> None:
    slots, seen = Slots(), SeenSlots()
    packed = pack(np.ones(5000))
    put = slots.put(packed.buffers)
    array = unpack(packed.text, seen.look(put))[10:20]
    assert not seen.freed
    assert array.sum() == 10
    del array
    assert list(seen.freed) == [put.slot]


def test_a_larger_batch_gets_more_room_and_a_smaller_one_goes() -> None:
    slots, seen = Slots(), SeenSlots()
    packed = full(1.0)
    small = slots.put(packed.buffers)
    assert read(seen, packed, small).sum() == 1000
    assert small.slot is not None
    slots.free([small.slot])
    packed = full(3.0, count=9000)
    large = slots.put(packed.buffers)
    assert large.dropped == small.slot
    assert read(seen, packed, large).sum() == 27000


def test_nothing_needs_no_room() -> None:
    assert Slots().put([]) == Put()
    assert SeenSlots().look(Put()) == []
