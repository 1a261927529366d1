"""What a person is told about ranks that stand still."""

import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from phalanx.comm.watch.blame import Condition, Standing
from phalanx.wording import counted

#: So many other hosts are named.
_MOST_HOSTS = 4


@final
@dataclass(frozen=True)
class Stalled:
    """Ranks of one host that have stood still for too long."""

    #: All ranks of this host.
    ranks: tuple[Standing, ...]
    #: Who stands still; nobody, if all ranks here wait for others elsewhere, or for each other.
    blamed: tuple[Standing, ...]
    #: The Python stack of every rank that could give it, by rank.
    stacks: Mapping[int, str]
    #: How to give ranks more time.
    hint: str = ""
    #: The ranks of other hosts, by the name of the host.
    elsewhere: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [_accusation(one) for one in self.blamed]
        if not self.blamed:
            lines = [_all_wait(self.ranks, self.elsewhere)]
        stopped = [one for one in self.blamed if one.condition == Condition.STOPPED]
        if self.hint and not stopped:
            lines.append(self.hint)
        return "\n".join(lines + _with_stacks(self.ranks, self.stacks))


def _accusation(one: Standing) -> str:
    where = f"rank {one.rank} (process {one.process} on {socket.gethostname()})"
    return f"{where} has stood still since {_since(one)}: {_why(one)}"


def _since(one: Standing) -> str:
    began = time.strftime("%H:%M:%S", time.localtime(time.time() - one.idle))
    return f"{began} ({_duration(one.idle)}), {_position(one)}"


def _position(one: Standing) -> str:
    """What it said last, perhaps a second before it was stopped."""
    if one.step is None:
        return "before its first step" + (" was done" if one.runs else ", or soon after")
    return f"after step {one.step:,}" if one.runs else f"after about step {one.step:,}"


def _why(one: Standing) -> str:
    match one.condition:
        case Condition.STOPPED:
            return "its process is stopped, by a signal such as SIGSTOP or by a debugger"
        case Condition.SILENT:
            return "its Python does not run, as in C code that keeps Python's lock"
        case Condition.BLOCKED:
            place = f", in {one.place}" if one.place else ""
            return f"it waits in the kernel for a file system or a device{place}"
    if one.computes:
        return f"it computes, on {one.load:.0%} of a core: in an endless loop, or for very long"
    return "it waits for something that is no rank, such as a lock, a pipe, a server or a sleep"


def _all_wait(ranks: Sequence[Standing], elsewhere: Mapping[str, Sequence[int]]) -> str:
    present = [one for one in ranks if one.condition != Condition.OVER]
    shortest = min(present, key=lambda one: one.idle)
    here = f"{names_of(one.rank for one in present)} on {socket.gethostname()}"
    others = [f"{names_of(numbers)} on {host}" for host, numbers in elsewhere.items()]
    if len(others) > _MOST_HOSTS:
        others = [*others[:_MOST_HOSTS], f"and on {len(others) - _MOST_HOSTS} more hosts"]
    awaited = f"others ({', '.join(others)}), or for each other" if others else "each other"
    return f"{here}: nothing was done since {_since(shortest)}, and all wait for {awaited}"


def _with_stacks(ranks: Sequence[Standing], stacks: Mapping[int, str]) -> list[str]:
    """A heading and a stack for all ranks that are at the same place."""
    groups: dict[tuple[str, str], list[Standing]] = {}
    for one in ranks:
        if one.condition != Condition.OVER:
            text = stacks.get(one.rank) or f"  {_no_stack(one)}\n"
            groups.setdefault((_in_words(one), text), []).append(one)
    return [
        f"{names_of(one.rank for one in group)} ({words}):\n{text.rstrip()}"
        for (words, text), group in groups.items()
    ]


def names_of(ranks: Iterable[int]) -> str:
    """Such as: ranks 0, 2."""
    numbers = [str(rank) for rank in ranks]
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def _in_words(one: Standing) -> str:
    return {
        Condition.STOPPED: "stopped",
        Condition.SILENT: "in C code",
        Condition.BLOCKED: "waiting for a file system or a device",
        Condition.BUSY: "computing" if one.computes else "waiting for something that is no rank",
        Condition.WAITING: "waiting for other ranks",
    }[one.condition]


def _no_stack(one: Standing) -> str:
    if one.condition == Condition.STOPPED:
        return "a stopped process cannot tell where it is"
    return "it did not tell where it is"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return counted(round(seconds), "second")
    return counted(round(seconds / 60), "minute")
