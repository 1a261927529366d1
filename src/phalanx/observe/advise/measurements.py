"""What was measured, as plain numbers: all that the model of costs is fitted to. Without torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import quantiles
from typing import Any

from phalanx.observe.advise.link import Link


@dataclass(frozen=True)
class Pace:
    """Steps that were timed, in rounds: the seconds of one, block of steps by block."""

    #: Of a step: those of one rank that trains alone, or of all together.
    samples: int
    rounds: tuple[tuple[float, ...], ...]
    #: Seconds an epoch beside its steps.
    overhead: float = 0.0

    @property
    def seconds(self) -> float:
        """Of a step, while nothing else keeps the machine busy: in the round that was disturbed
        least, a quarter of the blocks took less."""
        return min(map(lower_quartile, self.rounds))

    @property
    def blocks(self) -> tuple[float, ...]:
        """Of all rounds."""
        return tuple(chain.from_iterable(self.rounds))


@dataclass(frozen=True)
class Together:
    """Steps of the strategy on all ranks, and where their time went on average over them."""

    ranks: int
    hosts: int
    pace: Pace
    #: Shares of a step: for meeting the others and adding up, and for the update.
    exchange: float
    update: float
    #: Of ranks that train at the same time, each its part of a batch and without waiting for each
    #: other: seconds a step, and how much longer the slowest takes than they do on average.
    beside: float
    imbalance: float

    @property
    def ranks_a_host(self) -> int:
        return -(-self.ranks // self.hosts)


@dataclass(frozen=True)
class Exchanged:
    """The exchange of a gradient of so many bytes, alone: seconds a step."""

    bytes: int
    seconds: float


@dataclass(frozen=True)
class Size:
    """A larger or smaller network of the same family, on one rank alone."""

    name: str
    parameters: int
    gradient: int
    #: With a whole batch, and with a rank's part of it.
    whole: Pace
    part: Pace
    #: The share of a step with a whole batch that the update takes.
    update: float


@dataclass(frozen=True)
class Measurements:
    """All of them."""

    strategy: str
    #: Of an epoch.
    samples: int
    #: Of a step, over the ranks that were measured.
    batch: int
    #: Whether more ranks mean a larger batch (`--batch-size-per-rank`).
    batch_grows: bool
    threads: int
    #: Bytes of a gradient.
    gradient: int
    parameters: int
    #: One rank alone, with parts of a batch of several sizes, the largest first.
    alone: tuple[Pace, ...]
    #: The share of the first of these that the update takes.
    update: float
    #: One rank alone with more threads: as many as its host has cores, and how many they are.
    all_threads: tuple[int, Pace] | None
    together: Together
    exchanges: tuple[Exchanged, ...]
    #: Between hosts, if there are several.
    link: Link | None
    sizes: tuple[Size, ...] = ()
    #: Whether the strategy exchanges gradients between hosts while others are still computed.
    overlaps: bool = False

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Measurements":
        """What `asdict` has made of them, as it was."""
        more, link = values["all_threads"], values["link"]
        read = {
            "alone": tuple(map(_pace, values["alone"])),
            "all_threads": None if more is None else (more[0], _pace(more[1])),
            "together": Together(**_with_paces(values["together"], "pace")),
            "exchanges": tuple(Exchanged(**one) for one in values["exchanges"]),
            "link": None if link is None else Link(**link),
            "sizes": tuple(Size(**_with_paces(one, "whole", "part")) for one in values["sizes"]),
        }
        return cls(**dict(values) | read)


def _pace(values: Mapping[str, Any]) -> Pace:
    return Pace(**dict(values) | {"rounds": tuple(map(tuple, values["rounds"]))})


def _with_paces(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return dict(values) | {name: _pace(values[name]) for name in names}


def lower_quartile(values: Sequence[float]) -> float:
    """What a quarter of these are below."""
    return quantiles(values, n=4, method="inclusive")[0] if len(values) > 1 else values[0]
