"""How a DistributedOptimizer averages gradients: in buckets, without asking the others each time.

At the first step the ranks agree once on their parameters, and open a channel. From then on the
backward pass puts gradients in buckets, and each bucket that is full goes on its way while the pass
goes on (`sums`). Buckets begin in a fixed order, so nothing has to be negotiated. What does not fit
in is taken care of apart (`apart`): sparse gradients, and compressors of the user's own, go by name
through the engine; a parameter that got no gradient counts as zeros; a rank that waits for long
says so to the engine, which brings in ranks that have joined, or reports those that do not come.
"""

import threading
import time
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from phalanx.comm.progress import progress
from phalanx.errors import UsageError
from phalanx.horovod.apart import ApartExchange
from phalanx.horovod.buckets import Bucket, Details
from phalanx.horovod.channel import Channel
from phalanx.horovod.compression import Compression
from phalanx.horovod.engine import Engine
from phalanx.horovod.exceptions import HorovodInternalError
from phalanx.horovod.options import Options
from phalanx.horovod.patience import Patience
from phalanx.horovod.requests import Description, Pending, dtype_names, shapes_of

#: Seconds after which a rank that waits for the others says so.
_PATIENCE = 0.05
#: How often it calls MPI at once, before it begins to nap.
_SPINS = 2000


@final
class GradientExchange:
    """The gradients of some parameters, combined over the ranks once a step."""

    def __init__(
        self, name: str, named: Sequence[tuple[str, nn.Parameter]], options: Options
    ) -> None:
        self._name, self._options = name, options
        #: How often the ranks have agreed, and through which engine.
        self._generation = 0
        self._agreed_by: Engine | None = None
        self._lock = threading.Lock()
        self.passes = 1
        self.take(named)

    def take(self, named: Sequence[tuple[str, nn.Parameter]]) -> None:
        """Exchange these parameters from now on; the ranks agree on them at the next step."""
        self._names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.index = {parameter: index for index, parameter in enumerate(self.parameters)}
        self._engine: Engine | None = None
        self._channel: Channel | None = None
        self._buckets: list[_Storage] = []
        self._place: dict[int, _Storage] = {}
        self.restart()

    def restart(self) -> None:
        """Expect the gradients of the next step."""
        self._left = [self.passes] * len(self.parameters)
        self._packed: set[int] = set()
        #: Buckets that are on their way.
        self._begun = 0
        #: Whether a backward pass has been here since the last step.
        self.touched = False
        for storage in self._buckets:
            storage.missing = len(storage.bucket.indices)

    def arrived(self, index: int) -> None:
        """A backward pass has added to a gradient. Called out of the pass, which has a thread for
        every device."""
        with self._lock:
            self._arrived(index)

    def _arrived(self, index: int) -> None:
        if self._left[index] <= 0:
            raise UsageError(
                f"'{self._names[index]}' got a gradient more than {self.passes} times before "
                "step(): call step() or synchronize() after each backward pass, or tell "
                "DistributedOptimizer about more passes with backward_passes_per_step"
            )
        if not self.touched:
            self.touched = True
            if self._engine is not self._options.process_set.engine():
                self._channel = None  # Horovod was shut down and started again
        self._left[index] -= 1
        if self._left[index] == 0 and self._channel is not None and index in self._place:
            self._pack(index)
            if self._begin_full():
                progress().begin()

    def finish(self) -> None:
        """Collective. Exchange what has not been, and wait until all gradients are combined."""
        try:
            self._finish()
        finally:  # also after a failure, from which a training may start again
            progress().end()
            self.restart()

    def _finish(self) -> None:
        engine = self._options.process_set.engine()
        if self._channel is None or engine is not self._engine:
            self._open(engine)
        channel = self._channel
        assert channel is not None
        apart = [
            ApartExchange(
                f"{self._name}.{self._names[index]}", self.parameters[index], self._options
            )
            for index in sorted(channel.apart)
        ]
        for index in self._place:
            if index not in self._packed:
                self._pack(index)
        self._begin_full()
        progress().end()  # from here on this thread calls MPI itself
        self._settle(engine, channel)
        if self._begun:
            engine.timeline.end(self._name)
        self._unpack()
        for one in apart:
            one.finish()

    def _open(self, engine: Engine) -> None:
        """Collective. Agree with the other ranks on what is exchanged, once."""
        self._generation = self._generation + 1 if engine is self._agreed_by else 1
        self._agreed_by = engine
        # A rank that had joined when the others agreed has it already.
        channel = engine.channels.get(f"{self._name}.{self._generation}")
        if channel is None:
            channel = self._agree(engine)
        elif channel.shapes != shapes_of(self.parameters):
            raise HorovodInternalError(
                f"{self._name}: this rank has other parameters than those that had not joined"
            )
        self._engine, self._channel = engine, channel
        self._buckets = [
            _Storage(bucket, flat, self.parameters)
            for bucket, flat in zip(channel.buckets, channel.sums.flats, strict=True)
        ]
        self._place = {i: one for one in self._buckets for i in one.bucket.indices}
        self._packed = set()

    def _agree(self, engine: Engine) -> Channel:
        options = self._options
        everything = range(len(self.parameters))
        apart = [i for i in everything if options.is_custom or self._is_sparse(i)]
        numbers = {name: number for number, name in enumerate(self._names)}
        groups = [[numbers[one] for one in group if one in numbers] for group in options.groups]
        details = Details(
            names=tuple(self._names),
            options=options.described(),
            groups=tuple(tuple(group) for group in groups),
            apart=tuple(apart),
            halved=options.compression is Compression.fp16,
            divisor=options.divisor,
        )
        description = Description(
            f"open.{self._name}.{self._generation}",
            "open",
            dtype_names([parameter.detach() for parameter in self.parameters]),
            shapes_of(self.parameters),
            details=details,
        )
        pending = Pending(description)
        engine.submit(pending, wake=False)
        channel: Channel = engine.wait(pending)
        return channel

    def _is_sparse(self, index: int) -> bool:
        gradient = self.parameters[index].grad
        return gradient is not None and gradient.is_sparse and not self._options.sparse_as_dense

    def _pack(self, index: int) -> None:
        """Put a gradient in its bucket."""
        parameter, storage = self.parameters[index], self._place[index]
        view, gradient = storage.views[index], parameter.grad
        if gradient is None:
            view.zero_()
        elif gradient is not view:
            view.copy_(gradient.to_dense() if gradient.is_sparse else gradient)
        if parameter.device.type == "cpu":
            parameter.grad = view
        elif gradient is None or gradient.is_sparse:
            parameter.grad = torch.zeros_like(parameter)
        self._packed.add(index)
        storage.missing -= 1

    def _begin_full(self) -> bool:
        """Begin the buckets that are full, in their order; whether MPI has work for a while."""
        engine, channel = self._engine, self._channel
        assert engine is not None
        assert channel is not None
        works = False
        for storage in self._buckets[self._begun :]:
            if storage.missing:
                break
            if self._begun == 0:
                engine.timeline.begin(self._name, "ALLREDUCE")
            if self._options.predivide != 1.0:
                storage.flat.div_(self._options.predivide)
            works = channel.sums.begin()
            self._begun += 1
        return works

    def _settle(self, engine: Engine, channel: Channel) -> None:
        """Wait for the sums; whoever waits for long tells the engine."""
        patience = Patience(spins=_SPINS, longest=0.0002, yielding=True)
        watched: Pending | None = None
        deadline = 0.0 if engine.has_joined_ranks else time.perf_counter() + _PATIENCE
        try:
            while not channel.sums.test():
                if watched is None and time.perf_counter() > deadline:
                    watched = engine.watch(channel)
                if watched is not None and watched.done:
                    raise HorovodInternalError(f"{self._name}: {watched.error}")
                engine.nudge()
                patience.rest()
        finally:
            if watched is not None:
                engine.unwatch(channel)

    def _unpack(self) -> None:
        """Give gradients that are not in buckets, on a GPU, what came of them."""
        for index, storage in self._place.items():
            gradient, view = self.parameters[index].grad, storage.views[index]
            if gradient is not view and gradient is not None:
                gradient.copy_(view)


@final
class _Storage:
    """A bucket's memory, and where in it its gradients are."""

    def __init__(self, bucket: Bucket, flat: Tensor, parameters: Sequence[nn.Parameter]) -> None:
        self.bucket, self.flat = bucket, flat
        self.missing = len(bucket.indices)
        self.views: dict[int, Tensor] = {}
        start = 0
        for index, size in zip(bucket.indices, bucket.sizes, strict=True):
            self.views[index] = _view(flat, parameters[index], start)
            start += size


def _view(flat: Tensor, parameter: nn.Parameter, start: int) -> Tensor:
    """A piece that looks like the parameter, its memory format included."""
    piece = flat[start : start + parameter.numel()]
    if parameter.dim() == 4 and parameter.is_contiguous(memory_format=torch.channels_last):
        return piece.as_strided(parameter.shape, parameter.stride())
    return piece.view(parameter.shape)
