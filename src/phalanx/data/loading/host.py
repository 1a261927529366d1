"""What one rank of a host makes for all of them: in memory once a host, not once a rank."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from phalanx.comm.base import Communicator
from phalanx.comm.launch.process import release_freed_memory
from phalanx.comm.shared import SharedMemory, SharedMemoryError
from phalanx.data import registry
from phalanx.data.loading.packing import Packed, Span, layout, pack, unpack
from phalanx.data.split import Dataset
from phalanx.errors import PhalanxError

_Value = TypeVar("_Value")


class _Told(NamedTuple):
    """What the first rank has to share, but for the memory; or that everybody is to make it."""

    text: bytes = b""
    spans: tuple[Span, ...] | None = None


def once_a_host(
    comm: Communicator,
    make: Callable[[], _Value],
    *,
    shares: Callable[[_Value], bool] = lambda _: True,
) -> _Value:
    """Collective. What `make` gives on the first rank of each host, on all ranks of it.

    The memory of its tensors is the same; what a rank writes there, no other sees. An error of ours
    is raised on all of them. What `shares` says no to, and where ranks cannot share memory, each
    rank makes for itself.
    """
    host = comm.host()
    value = make() if host.size == 1 else _made_by_first(host, make, shares)
    host.free()
    return value


def loaded_once(
    comm: Communicator,
    name: str,
    data_dir: Path | None,
    *,
    options: Mapping[str, Any],
    **known: Any,
) -> Dataset:
    """Collective. `phalanx.data.load` by the first rank of each host, for all of it.

    What a user's own code makes may be anything, and is made by every rank.
    """

    def load() -> Dataset:
        return registry.load(name, data_dir=data_dir, options=options, **known)

    if ":" in name:
        return load()
    dataset = once_a_host(comm, load, shares=_is_sent)
    host = comm.host()
    for split in (dataset.train, dataset.test):
        if split.source is not None:
            split.source.share(host)
    host.free()
    return dataset


def _is_sent(dataset: Dataset) -> bool:
    sources = (split.source for split in (dataset.train, dataset.test))
    return all(source is None or source.is_sent for source in sources)


def _made_by_first(
    host: Communicator, make: Callable[[], _Value], shares: Callable[[_Value], bool]
) -> _Value:
    told: _Told | PhalanxError = _Told()
    value: _Value | None = None
    packed = Packed(b"", [])
    if host.rank == 0:
        try:
            value = make()
            if shares(value):
                packed = pack(value)
                spans = layout([buffer.nbytes for buffer in packed.buffers])
                told = _Told(packed.text, tuple(spans))
        except PhalanxError as error:
            told = error
    told = host.broadcast_object(told)
    if isinstance(told, PhalanxError):
        raise told
    if told.spans is None:
        return make() if value is None else value
    try:
        memory = _filled(host, told.spans, packed.buffers)
    except SharedMemoryError:
        return make() if value is None else value
    shared: _Value = unpack(told.text, [memory[span.start : span.stop] for span in told.spans])
    del value, packed
    if host.rank == 0:
        release_freed_memory()
    return shared


def _filled(host: Communicator, spans: tuple[Span, ...], buffers: list[memoryview]) -> memoryview:
    """Collective. Memory that the first rank has put the buffers in."""
    size = spans[-1].stop if spans else 0
    memory = SharedMemory(host, size)
    room = memory.tensor((size,), torch.uint8)
    for span, buffer in zip(spans, buffers, strict=False):  # of which others have none
        room.numpy()[span.start : span.stop] = np.frombuffer(buffer, dtype=np.uint8)
    host.allgather_objects(None)  # a barrier that needs no GPUs
    seen: Any = memory.own(room).numpy().data
    return memoryview(seen)
