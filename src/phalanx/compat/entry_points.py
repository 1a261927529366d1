"""The five ways to train that the Go program has, by its names for them. Without torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from phalanx.errors import UsageError
from phalanx.strategies.registry import resolve
from phalanx.wording import flag, nearest, shortened


@dataclass(frozen=True)
class EntryPoint:
    """What one of its functions trains, and by which strategy of ours."""

    name: str
    strategy: str
    dataset: str


ENTRY_POINTS = (
    EntryPoint("Single_node_iris", "single", "iris"),
    EntryPoint("Mpi_iris_Allreduce", "allreduce", "iris"),
    EntryPoint("Mpi_iris_SendRecv", "server", "iris"),
    EntryPoint("Mpi_images_Allreduce", "allreduce", "images"),
    EntryPoint("Mpi_images_SendRecv", "server", "images"),
)
NAMES = tuple(one.name for one in ENTRY_POINTS)
_BY_NAME = {one.name.lower(): one for one in ENTRY_POINTS}


def find_entry_point(text: str) -> EntryPoint:
    """The one of this name, in letters of any case, as it stands in a program or by itself.

    `mpicode.Mpi_iris_SendRecv()` is `mpi_iris_sendrecv`.
    """
    name = text.strip().partition("(")[0].rpartition(".")[2].lower()
    if name in _BY_NAME:
        return _BY_NAME[name]
    meant = nearest(name, _BY_NAME)
    hint = f"did you mean '{_BY_NAME[meant].name}'? " if meant else ""
    raise UsageError(f"unknown entry '{shortened(text)}': {hint}There are: {', '.join(NAMES)}")


def with_entry_point(entry: EntryPoint, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags with the strategy and the data set of an entry point, which they may not contradict."""
    for name, wanted in (("strategy", entry.strategy), ("dataset", entry.dataset)):
        given = flags.get(name)
        if given is not None and resolve(given) != wanted:
            raise UsageError(
                f"--entry {entry.name} stands for {flag(name)} {wanted}: leave out "
                f"{flag(name)} {given}, or --entry"
            )
    return {**flags, "strategy": entry.strategy, "dataset": entry.dataset}
