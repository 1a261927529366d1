"""How a DistributedOptimizer averages gradients: in buckets, without asking the others each time.

At the first step the ranks agree once on their parameters, and open a channel. From then on the
backward pass puts gradients in buckets, and each bucket that is full goes on its way while the pass
goes on (`sums`). Buckets begin in a fixed order, so nothing has to be negotiated. What does not fit
in is exchanged separately (`separate`): sparse gradients, and compressors of the user's own, go by
name through the engine; a parameter that got no gradient counts as zeros; a rank that waits for
long says so to the engine, which brings in ranks that have joined, or reports those that do not
come.

Parameters match by their names, and exchanges by the names of theirs (`title`): ranks may have
parameters in another order, and optimizers that others have not.
"""

import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any, final

import torch
from torch import nn

from phalanx.comm.progress import progress
from phalanx.exchange.views import is_channels_last
from phalanx.horovod.engine.backoff import Backoff
from phalanx.horovod.engine.channel import Channel
from phalanx.horovod.engine.compression import Compression
from phalanx.horovod.engine.details import Details
from phalanx.horovod.engine.engine import Engine
from phalanx.horovod.engine.exceptions import CallOrderError, HorovodInternalError
from phalanx.horovod.engine.losses import as_loss
from phalanx.horovod.engine.requests import Description, Pending, dtype_names, shapes_of
from phalanx.horovod.optimizer.options import Options
from phalanx.horovod.optimizer.separate import SeparateExchange
from phalanx.horovod.optimizer.storage import Storage

#: Seconds after which a rank that waits for the others says so.
_WATCH_AFTER = 0.05
#: How often it calls MPI at once, before it begins to nap.
_SPINS = 2000


@final
class GradientExchange:
    """The gradients of some parameters, combined over the ranks once a step."""

    def __init__(
        self, family: str, named: Sequence[tuple[str, nn.Parameter]], options: Options
    ) -> None:
        """`family`: what exchanges of such parameters are called; they are numbered when used."""
        self._family, self._options = family, options
        self._name = family
        #: How often the ranks have agreed, and through which engine.
        self._generation = 0
        self._agreed_by: Engine | None = None
        self._lock = threading.Lock()
        #: Tells the engine that nobody needs the channel any more.
        self._discard: weakref.finalize[..., Any] | None = None
        self.passes = 1
        self.take(named)

    def take(self, named: Sequence[tuple[str, nn.Parameter]]) -> None:
        """Exchange these parameters from now on; the ranks agree on them at the next step."""
        self._arrange(named)
        self._looks = self._look()
        self._engine: Engine | None = None
        self._channel: Channel | None = None
        self._storage: Storage | None = None
        self.restart()

    def _arrange(self, named: Sequence[tuple[str, nn.Parameter]]) -> None:
        self._names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.index = {parameter: index for index, parameter in enumerate(self.parameters)}

    def _look(self) -> list[tuple[torch.dtype, torch.Size, bool]]:
        return [(one.dtype, one.shape, is_channels_last(one)) for one in self.parameters]

    @property
    def is_open(self) -> bool:
        """Whether the ranks have agreed on these parameters."""
        return self._channel is not None

    @property
    def fits(self) -> bool:
        """Whether the parameters still look as they did; `model.half()` changes that."""
        return self._look() == self._looks

    def title(self, engine: Engine) -> str:
        """The name that all ranks of an engine know this exchange by."""
        if engine is not self._agreed_by:
            self._agreed_by, self._generation = engine, 0
            self._name = f"{self._family}.{engine.occurrence(self._family)}"
        return self._name

    def restart(self) -> None:
        """Expect the gradients of the next step."""
        self._left = [self.passes] * len(self.parameters)
        #: Whether a backward pass has been here since the last step.
        self.touched = False
        if self._channel is not None and self._channel.sums.started:
            self._channel = None  # other ranks may wait for the rest of that step: agree anew
        if self._storage is not None:
            self._storage.restart()

    def arrived(self, index: int) -> None:
        """A backward pass has added to a gradient. Called out of the pass, which has a thread for
        every device."""
        with self._lock:
            try:
                self._arrived(index)
            except Exception as error:
                raise (as_loss(error) or error) from error.__cause__

    def _arrived(self, index: int) -> None:
        if self._left[index] <= 0:
            raise CallOrderError(_once_too_often(self._names[index], self.passes))
        if not self.touched:
            self.touched = True
            if self._engine is not self._options.process_set.engine():
                self._channel = None  # Horovod was shut down and started again
        self._left[index] -= 1
        if self._left[index] or self._channel is None or self._storage is None:
            return
        if index in self._storage:
            self._storage.pack(index)
            if self._start_full():
                progress().begin()

    def arrivals(self) -> list[nn.Parameter]:
        """The parameters that a backward pass has added to since the last step."""
        return [
            p for p, left in zip(self.parameters, self._left, strict=True) if left < self.passes
        ]

    def finish(self) -> None:
        """Collective. Exchange what has not been, and wait until all gradients are combined."""
        try:
            self._finish()
        except Exception as error:
            raise (as_loss(error) or error) from error.__cause__
        finally:  # also after a failure, from which a training may start again
            progress().end()
            self.restart()

    def _finish(self) -> None:
        engine = self._options.process_set.engine()
        if self._channel is None or engine is not self._engine:
            self._open(engine)
        channel, storage = self._channel, self._storage
        assert channel is not None
        assert storage is not None
        separate = [
            SeparateExchange(
                f"{self._name}.{self._names[index]}", self.parameters[index], self._options
            )
            for index in sorted(channel.separate)
        ]
        storage.pack_rest()
        self._start_full()
        started = channel.sums.started
        if started != len(channel.buckets):  # the optimizer would step on this rank's own
            raise HorovodInternalError(
                f"{self._name}: only {started} of {len(channel.buckets)} buckets have begun"
            )
        progress().end()  # from here on this thread calls MPI itself
        self._settle(engine, channel)
        if started:
            engine.timeline.end(self._name)
        storage.unpack()
        for one in separate:
            one.finish()

    def _open(self, engine: Engine) -> None:
        """Collective. Agree with the other ranks on what is exchanged, once."""
        name = f"{self.title(engine)}.{self._generation + 1}"
        # A rank that had joined when the others agreed has it already.
        channel = engine.channels.get(name)
        if channel is None:
            channel = self._agree(engine, name)
        own = dict(zip(self._names, shapes_of(self.parameters), strict=True))
        if own != dict(zip(channel.names, channel.shapes, strict=True)):
            raise HorovodInternalError(
                f"{self._name}: this rank has other parameters than those that had not joined"
            )
        self._generation += 1  # not before: ranks that fail to agree try the same name again
        named = dict(zip(self._names, self.parameters, strict=True))
        self._arrange([(name, named[name]) for name in channel.names])
        self._looks = self._look()
        self._engine, self._channel = engine, channel
        self._storage = Storage(channel, self.parameters)
        channel.when_freed(self._let_go)
        if self._discard is not None:
            self._discard.detach()
        self._discard = weakref.finalize(self, engine.discard, channel.name)
        self._discard.atexit = False

    def _let_go(self) -> None:
        """The channel is gone, and so is its memory but for gradients that are still in use."""
        self._channel = self._storage = None

    def _agree(self, engine: Engine, name: str) -> Channel:
        options = self._options
        everything = range(len(self.parameters))
        sparse = [i for i in everything if self._is_sparse(i)]
        separate = sparse if not options.sparse_as_dense else []
        before = f"{self._name}.{self._generation}"
        replaced = engine.channels.get(before)
        numbers = {name: number for number, name in enumerate(self._names)}
        groups = [[numbers[one] for one in group if one in numbers] for group in options.groups]
        details = Details(
            names=tuple(self._names),
            options=options.described(),
            groups=tuple(tuple(group) for group in groups),
            separate=tuple(everything if options.is_custom else separate),
            sparse=tuple(sparse),
            channels_last=tuple(i for i in everything if is_channels_last(self.parameters[i])),
            halved=options.compression is Compression.fp16,
            divisor=options.divisor,
            before=before,
            steps=replaced.sums.steps if replaced is not None else 0,
        )
        description = Description(
            f"open.{name}",
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
        return gradient is not None and gradient.is_sparse

    def _start_full(self) -> bool:
        """Start the buckets that are full, in their order; whether MPI has work for a while."""
        engine, channel, storage = self._engine, self._channel, self._storage
        assert engine is not None
        assert channel is not None
        assert storage is not None
        none_started = channel.sums.started == 0
        works = storage.start_full(predivide=self._options.predivide)
        if none_started and channel.sums.started:
            engine.timeline.begin(self._name, "ALLREDUCE")
        return works

    def _settle(self, engine: Engine, channel: Channel) -> None:
        """Wait for the sums; whoever waits for long tells the engine."""
        backoff = Backoff(spins=_SPINS, longest=0.0002, yielding=True)
        watched: Pending | None = None
        deadline = 0.0 if engine.has_joined_ranks else time.perf_counter() + _WATCH_AFTER
        try:
            while not channel.sums.test():
                if watched is None and time.perf_counter() > deadline:
                    watched = engine.watch(channel)
                if watched is not None and watched.done:
                    self._channel = None  # nobody will come to it any more
                    raise engine.error(f"{self._name}: {watched.error}")
                engine.nudge()
                backoff.rest()
        finally:
            if watched is not None:
                engine.unwatch(channel)


def _once_too_often(name: str, passes: int) -> str:
    """What to do about a gradient that nobody expected; the first words are Horovod's."""
    return (
        "Gradients were computed more than backward_passes_per_step times before call to step(): "
        f"'{name}' got one more than {passes} times. To accumulate gradients locally, increase "
        "backward_passes_per_step; else call step() or synchronize() after each backward pass. "
        "If another network's loss went back through this one, as a GAN's generator loss does "
        "through the discriminator, keep these gradients out of it: "
        "`loss.backward(inputs=list(generator.parameters()))`, or "
        "`discriminator.requires_grad_(False)` before that pass and True after it"
    )
