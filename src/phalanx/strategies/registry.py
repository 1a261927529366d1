"""The strategies by name. Nothing here imports torch: names are checked before any rank starts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from phalanx.errors import UsageError
from phalanx.spelling import unknown

if TYPE_CHECKING:
    from phalanx.strategies.base import Strategy


@dataclass(frozen=True)
class Entry:
    """A strategy as a user meets it."""

    name: str
    target: str
    summary: str
    moves: str
    also_called: str
    most_ranks: int | None = None
    #: Fields of the strategy that a user may set.
    options: tuple[str, ...] = ()


_ENTRIES = (
    Entry(
        name="single",
        target="phalanx.strategies.single:Single",
        summary="one rank, no communication: the baseline",
        moves="nothing",
        also_called="sequential",
        most_ranks=1,
    ),
    Entry(
        name="allreduce",
        target="phalanx.strategies.allreduce:Allreduce",
        summary="every rank holds the model; gradients are added up by MPI_Allreduce",
        moves="the flat gradient, once a step, between all ranks",
        also_called="collective, mirrored, Horovod, DDP",
        options=("algorithm", "overlap", "compress"),
    ),
    Entry(
        name="central",
        target="phalanx.strategies.central:Central",
        summary="one copy of parameters and optimizer state per host; every rank updates its slice",
        moves="nothing on a host, where ranks share memory; each slice once a step between hosts",
        also_called="central storage, ZeRO-1",
    ),
)
STRATEGIES = {entry.name: entry for entry in _ENTRIES}


def default_strategy(ranks: int, options: Iterable[str] = ()) -> str:
    """What trains when the user names no strategy: with options, one that has them."""
    if wanted := set(options):
        for entry in _ENTRIES:
            if wanted <= set(entry.options):
                return entry.name
    return "single" if ranks == 1 else "central"


def check(name: str, ranks: int, *, options: Iterable[str] = ()) -> None:
    """Raise UsageError unless a strategy of this name takes the options and so many ranks."""
    if name not in STRATEGIES:
        raise unknown("strategy", name, known=STRATEGIES)
    most = STRATEGIES[name].most_ranks
    if most is not None and ranks > most:
        others = [entry.name for entry in _ENTRIES if entry.most_ranks is None]
        raise UsageError(
            f"strategy '{name}' trains on at most {most} rank, not on {ranks}; "
            f"for more ranks take one of: {', '.join(others)}"
        )
    for option in options:
        if option not in STRATEGIES[name].options:
            others = [entry.name for entry in _ENTRIES if option in entry.options]
            raise UsageError(
                f"'{option}' is no option of strategy '{name}'; "
                f"strategies that take it: {', '.join(others) or 'none'}"
            )


def make(name: str, options: Mapping[str, Any] | None = None) -> "Strategy":
    """The strategy of this name; options that are not given are its defaults."""
    module, _, attribute = STRATEGIES[name].target.partition(":")
    strategy: Strategy = getattr(import_module(module), attribute)(**(options or {}))
    return strategy
