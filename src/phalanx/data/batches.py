"""Global batches in an order that the seed and the epoch fix, cut alike by every rank."""

import math
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, final

import torch
from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.data.own.collected import Taken
from phalanx.data.own.nest import Nest
from phalanx.data.own.paired import Paired
from phalanx.data.seeding import generator
from phalanx.data.split import Samples, Split
from phalanx.data.transforms import Draw
from phalanx.errors import UsageError


def cut(count: int, parts: int) -> list[slice]:
    """Cut `count` things in contiguous parts, the larger first, sizes differing by at most one.

    With fewer things than parts the last parts are empty.
    """
    if parts < 1:
        raise UsageError(f"a batch is cut in 1 part or more, got {parts}")
    size, larger = divmod(count, parts)
    bounds = [index * size + min(index, larger) for index in range(parts + 1)]
    return [slice(start, stop) for start, stop in pairwise(bounds)]


def order(count: int, *, seed: int, epoch: int) -> Tensor:
    """A permutation of `count` indices that depends on the seed and the epoch alone."""
    return torch.from_numpy(generator(seed, epoch).permutation(count))


def batch_count(count: int, batch_size: int) -> int:
    """How many batches an epoch of `count` samples has; the last may be smaller."""
    if batch_size < 1:
        raise UsageError(f"the batch size must be 1 or more, got {batch_size}")
    return -(-count // batch_size)


Weigh = Callable[[Any], float | Tensor]


def plain(targets: Any) -> Any:
    """What a user's function is given: the nest itself, or the tensor."""
    return targets.value if isinstance(targets, Nest) else targets


@final
@dataclass(eq=False, slots=True)
class Batch:
    """A global batch, the same on every rank; samples are copied only when a part is taken.

    `draw` is what random transforms depend on. If there is a `following` batch, whoever takes a
    part will want the same part of that one next, and its source is asked for it meanwhile; and of
    those behind it, as many as the source asks for `ahead`. Samples are made in CPU memory; those
    of a part then move to the `device`, if there is one.
    """

    source: Split | Taken | Paired
    indices: Tensor
    dtype: torch.dtype = torch.float32
    draw: Draw | None = None
    following: "Batch | None" = None
    device: torch.device | None = None
    #: How many steps of the training came before it: what random numbers depend on, too.
    step: int = 0
    _asked: dict[tuple[int, int], Future[Any] | None] = field(default_factory=dict, init=False)
    #: What `agree_on_weight` has found, and read on the way.
    _weight: float | None = field(default=None, init=False)
    _read: dict[tuple[int, int], Samples] | None = field(default=None, init=False)

    @property
    def size(self) -> int:
        """The number of samples over all parts."""
        return self.indices.shape[0]

    def part(self, index: int, of: int) -> Samples:
        """The samples of one part when the batch is `cut` in `of` parts; there may be none."""
        if not 0 <= index < of:
            raise UsageError(f"a batch cut in {of} has parts 0 to {of - 1}, got {index}")
        samples = None if self._read is None else self._read.pop((index, of), None)
        samples = self._take(index, of) if samples is None else samples
        return samples if self.device is None else samples.to(self.device)

    def _take(self, index: int, of: int) -> Samples:
        self._ask_ahead(index, of)
        asked = self._asked.pop((index, of), None)
        return self.source.take(
            self._indices_of(index, of),
            dtype=self.dtype,
            draw=self.draw,
            fetched=None if asked is None else asked.result(),
        )

    def whole(self) -> Samples:
        """All samples of the batch."""
        return self.part(0, of=1)

    def targets(self) -> Any:
        """The targets of all samples, without their inputs."""
        return self.source.take_targets(self.indices, dtype=self.dtype)

    def weight(self, weigh: "Weigh") -> float:
        """What the targets of all samples weigh together."""
        return float(weigh(plain(self.targets()))) if self._weight is None else self._weight

    def agree_on_weight(self, comm: Communicator, weigh: "Weigh", *, pieces: int) -> None:
        """Collective. Find that out together, if no rank is to read the samples of others.

        In so many pieces, which ranks take as they take parts: what is read here need not be read
        again. Their sum does not depend on who had which.
        """
        if self.source.has_targets:
            return
        of_ranks = cut(pieces, comm.size)
        mine = of_ranks[comm.rank]
        keys = [(piece, pieces) for piece in range(mine.start, mine.stop)]
        for key in keys:
            self._ask_ahead(*key)
        self._read = {key: self._take(*key) for key in keys}
        read = self._read.values()
        weights = [float(weigh(plain(one.targets))) if len(one.targets) else 0.0 for one in read]
        everyone = torch.empty(pieces, dtype=torch.float64)
        counts = [part.stop - part.start for part in of_ranks]
        comm.allgather(torch.tensor(weights, dtype=torch.float64), everyone, counts=counts)
        self._weight = math.fsum(everyone.tolist())

    def _indices_of(self, index: int, of: int) -> Tensor:
        size, larger = divmod(self.indices.shape[0], of)
        start = index * size + min(index, larger)  # as `cut` has it, for one part alone
        return self.indices[start : start + size + (index < larger)]

    def _ask_ahead(self, index: int, of: int) -> None:
        """Have a part of this batch and of those that follow read, if nobody has before."""
        ahead = self.source.ahead
        batch: Batch | None = self if ahead else None
        while batch is not None and ahead >= 0:
            if (index, of) not in batch._asked:
                indices = batch._indices_of(index, of)
                batch._asked[index, of] = batch.source.ask(indices, batch.draw)
            batch, ahead = batch.following, ahead - 1


def batches(
    split: Split | Taken | Paired,
    *,
    batch_size: int,
    seed: int,
    epoch: int,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
    shuffle: bool = True,
    seen: int = 0,
    step: int = 0,
    most: float = math.inf,
) -> Iterator[Batch]:
    """One epoch's global batches: every sample once, the last batch perhaps smaller.

    An epoch that was interrupted goes on behind the samples that were `seen`. `step` is the number
    that the first batch has in the training. There are as many batches as samples last, and `most`.
    """
    count = int(min(batch_count(len(split) - seen, batch_size), most))
    indices = order(len(split), seed=seed, epoch=epoch) if shuffle else torch.arange(len(split))
    draw = Draw(seed, epoch)
    one_by_one = (
        Batch(
            split,
            indices[seen + number * batch_size :][:batch_size],
            dtype,
            draw,
            device=device,
            step=step + number,
        )
        for number in range(count)
    )
    return linked(one_by_one, ahead=split.ahead)


def linked(one_by_one: Iterator[Batch], *, ahead: int) -> Iterator[Batch]:
    """The batches, each of which knows so many that follow."""
    known: deque[Batch] = deque()
    for batch in one_by_one:
        if known:
            known[-1].following = batch
        known.append(batch)
        if len(known) > ahead:
            yield known.popleft()
    yield from known
