"""Overlap: the exchange of gradients goes on while the backward pass computes the next ones.

The flat gradient is cut into buckets of whole parameters, from its end, because the backward pass
comes to the last layers first. As soon as all gradients of a bucket are there, its exchange starts;
but in the order of the buckets, which is the same on all ranks whatever their samples do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import final

from torch import Tensor, nn

from phalanx.comm.progress import progress
from phalanx.errors import UsageError
from phalanx.exchange.flat import FlatBlock
from phalanx.exchange.sums import Exchanges


@dataclass(frozen=True, eq=False)
class Bucket:
    """Parameters that follow each other, and the piece of the flat gradient that is theirs."""

    parameters: tuple[nn.Parameter, ...]
    #: Where each parameter's gradient should be.
    views: tuple[Tensor, ...]
    gradients: Tensor


def cut_in_buckets(block: FlatBlock, most_bytes: int) -> Iterator[Bucket]:
    """A block's buckets, from its end: of about so many bytes, or of one larger parameter."""
    layout = block.layout
    most = most_bytes // block.rows.element_size()
    stop, last = layout.length, len(layout.parameters)
    for index in reversed(range(last)):
        start = layout.starts[index]
        if index == 0 or stop - layout.starts[index - 1] > most:
            yield Bucket(
                parameters=layout.parameters[index:last],
                views=block.row_views[0][index:last],
                gradients=block.rows[0, start:stop],
            )
            stop, last = start, index


@final
class Overlap:
    """Starts the exchange of each bucket out of the backward pass that completes it.

    The first exchanges must be those of the buckets, in the same order.
    """

    def __init__(self, exchanges: Exchanges, buckets: list[Bucket]) -> None:
        self._exchanges = exchanges
        self._buckets = buckets
        self._missing: list[set[int]] = []
        self._hooks = []
        for number, bucket in enumerate(buckets):
            for place, parameter in enumerate(bucket.parameters):
                arrived = partial(self._arrived, number, place)
                hook = parameter.register_post_accumulate_grad_hook(arrived)  # type: ignore[no-untyped-call]
                self._hooks.append(hook)

    def close(self) -> None:
        """Take no notice of gradients any more."""
        for hook in self._hooks:
            hook.remove()

    def watch(self) -> None:
        """The next backward pass is the last one before `finish`: what it completes may go."""
        self._missing = [set(range(len(bucket.parameters))) for bucket in self._buckets]

    def finish(self) -> None:
        """Collective. Exchange what has not been; afterwards all sums are there."""
        if self._buckets:
            self._missing = []
            progress().end()
        self._exchanges.finish()

    def _arrived(self, number: int, place: int, parameter: Tensor) -> None:
        if not self._missing:
            return
        if number < self._exchanges.started:
            raise UsageError(
                f"overlap: a parameter of shape {list(parameter.shape)} got a gradient twice in "
                "one backward pass (through reentrant checkpointing?), the second time after its "
                "exchange had begun; train this model without overlap"
            )
        if parameter.grad is self._buckets[number].views[place]:
            self._missing[number].discard(place)
        # else something has replaced the view: the gradient is put in its place after the pass
        while self._exchanges.started < len(self._buckets):
            if self._missing[self._exchanges.started]:
                break
            self._exchanges.start_next()
            progress().begin()
