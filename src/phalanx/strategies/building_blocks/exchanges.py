"""How gradients of a step are exchanged, as strategies see it, and what may be chosen about it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from phalanx.comm.algorithm_names import AUTO
from phalanx.exchange.compressions import DEFAULT_RANK, LOW_RANK
from phalanx.exchange.overlap import Overlap
from phalanx.state import State
from phalanx.strategies.base import TextTable
from phalanx.strategies.building_blocks.error_feedback import ErrorFeedback, Names
from phalanx.strategies.building_blocks.overlap_trial import OverlapTrial

BUCKET_BYTES = 1 << 18
BUCKET_BYTES_ON_GPUS = 1 << 24
#: How much fewer bytes of a gradient travel as matrices of low rank, or fewer still.
_LOW_RANK_GAIN = 16


@dataclass(frozen=True)
class Way:
    """How gradients travel."""

    #: As which of `phalanx.exchange.compressions`, if as any; `auto` is to be found out.
    compress: str | None = None
    #: Of matrices of low rank.
    rank: int = DEFAULT_RANK
    #: Whether they go while the backward pass does.
    overlap: bool = True
    #: Whether nobody has asked for that: the first passes then show whether it can be, and pays.
    careful: bool = True
    bucket_bytes: int = BUCKET_BYTES

    @property
    def on_trial(self) -> bool:
        """Whether the first steps are to show if gradients should go while the pass does."""
        return self.overlap and self.careful

    @property
    def most_bytes(self) -> int:
        """Of the gradients in a bucket: what travels of them is to be worth its messages."""
        return self.bucket_bytes * (_LOW_RANK_GAIN if self.compress == LOW_RANK else 1)


class Options(Protocol):
    """What a strategy lets a user choose about it."""

    @property
    def lossy(self) -> bool: ...
    @property
    def overlap(self) -> bool | None: ...
    @property
    def compress(self) -> str | None: ...
    @property
    def compress_rank(self) -> int | None: ...
    @property
    def bucket_bytes(self) -> int | None: ...


def way_of(options: Options, *, overlap: bool, on_cpu: bool = True) -> Way:
    """What options come to; `overlap` if nobody has said whether. Buckets are larger on GPUs, whose
    links are fast and whose calls are not."""
    usual = BUCKET_BYTES if on_cpu else BUCKET_BYTES_ON_GPUS
    return Way(
        compress=AUTO if options.lossy else options.compress,
        rank=options.compress_rank or DEFAULT_RANK,
        overlap=overlap if options.overlap is None else options.overlap,
        careful=options.overlap is None,
        bucket_bytes=usual if options.bucket_bytes is None else options.bucket_bytes,
    )


class Exchange(ABC):
    """One rank's part in the sums of all steps."""

    @abstractmethod
    def watch(self) -> None:
        """The next backward pass is the last one of the step: what it completes may go."""

    @abstractmethod
    def finish(self) -> list[Tensor]:
        """Collective. Afterwards the sums are there; marks of the parameters that have any."""

    @abstractmethod
    def state(self, names: Names) -> State:
        """What is kept from step to step, as a part of a training's state."""

    @abstractmethod
    def load(self, names: Names, state: State) -> None:
        """Go on from there."""

    def report(self) -> Sequence[TextTable]:
        """What there is to tell about it after the last step, the same on every rank."""
        return ()

    @abstractmethod
    def close(self) -> None:
        """Collective. Give hooks, threads and communicators back."""


class BucketExchange(Exchange):
    """One in buckets, which may go during the backward pass."""

    _overlap: Overlap
    #: Where it is to be found out whether they should.
    _trial: OverlapTrial | None
    _feedback: ErrorFeedback

    def watch(self) -> None:
        self._overlap.watch()

    def _finish_sums(self) -> None:
        """Collective. Wait for the sums of all buckets."""
        self._overlap.finish()
        if self._trial is not None:
            self._trial.step_over()

    def state(self, names: Names) -> State:
        return self._feedback.state(names)

    def load(self, names: Names, state: State) -> None:
        self._feedback.load(names, state)

    def report(self) -> Sequence[TextTable]:
        return () if self._trial is None else self._trial.report()
