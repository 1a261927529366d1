"""The parts of a global batch that one pipeline sends through its stages, one after the other."""

from dataclasses import dataclass

from torch import Tensor

from phalanx.data.batches import Batch, cut, plain


@dataclass(frozen=True)
class Division:
    """How global batches are divided over replicas, and a replica's share in micro-batches."""

    replicas: int
    #: Micro-batches a replica, where they are not the shards.
    each: int
    shards: int | None = None

    def of(self, batch: Batch) -> int:
        """In how many parts a batch is cut, over all replicas."""
        if self.shards is not None:
            return self.shards
        # A batch with fewer samples than that: no replica goes without while others have several.
        return self.replicas * max(1, min(self.each, batch.size // self.replicas))

    def parts(self, batch: Batch, replica: int) -> "list[Part]":
        """A replica's parts of a batch, without empty ones, which come last."""
        of = self.of(batch)
        mine = cut(of, self.replicas)[replica]
        pieces = cut(batch.size, of)
        parts = [Part(batch, index, of, pieces[index]) for index in range(mine.start, mine.stop)]
        return [part for part in parts if part.count]


@dataclass(frozen=True)
class Part:
    """One micro-batch. Only what is asked for is read."""

    batch: Batch
    index: int
    of: int
    piece: slice

    @property
    def count(self) -> int:
        count: int = self.piece.stop - self.piece.start
        return count

    def inputs(self) -> Tensor:
        """What the first stage gets."""
        inputs: Tensor = plain(self.batch.part(self.index, self.of).inputs)
        return inputs

    def targets(self) -> Tensor:
        """What the last stage compares with."""
        batch = self.batch
        if not batch.source.has_targets:  # read as the inputs are: by workers, if there are any
            own: Tensor = plain(batch.part(self.index, self.of).targets)
            return own
        taken = batch.source.take_targets(batch.indices[self.piece], dtype=batch.dtype)
        targets: Tensor = plain(taken)
        return targets if batch.device is None else targets.to(batch.device, non_blocking=True)


def divide(*, stages: int, replicas: int, asked: int | None, shards: int | None) -> Division:
    """The micro-batches that were asked for; else the shards, or two for each stage."""
    if shards is None:
        usual = 1 if stages == 1 else 2 * stages
        return Division(replicas, usual if asked is None else asked)
    return Division(replicas, -(-shards // replicas), shards)
