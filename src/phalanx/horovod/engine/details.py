"""What the ranks' optimizers say of themselves when they open a channel."""

from typing import NamedTuple


class Details(NamedTuple):
    """One rank's optimizer."""

    names: tuple[str, ...]
    #: What must be the same everywhere, in words.
    options: str
    #: Parameters (by number) that go together, whatever their size.
    groups: tuple[tuple[int, ...], ...]
    #: Parameters that this rank cannot put in a bucket: their gradients are sparse.
    separate: tuple[int, ...]
    #: Parameters whose gradients came sparse, in a bucket or not.
    sparse: tuple[int, ...]
    #: Parameters whose memory is in that order on this rank.
    channels_last: tuple[int, ...]
    #: Whether float32 travels as float16.
    halved: bool
    #: What sums are divided by.
    divisor: float
    #: The channel that this one takes the place of, and how many steps this rank has begun in it.
    before: str
    steps: int
