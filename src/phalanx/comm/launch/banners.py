"""What mpiexec says when a job ends: without what a rank has said itself, in a line a rank."""

import re
import signal
from collections.abc import Iterable, Iterator

#: What ends a box, or begins one: at times behind a stray byte, or behind a line without an end.
_RULE = re.compile(rb"(.*?)(-{60,}\s*)$", re.DOTALL)
_OUR_END = (
    "MPI_ABORT was invoked",
    "help about: mpi-abort",  # the same, of a rank that can open no file to read it from
    "prterun has exited due to",
    "mpiexec has exited due to",
)
_KILLED = re.compile(r"process rank (\d+) .*?on node (\S+) exited on signal (\d+) \(([^)]*)\)")
#: What it says, in a line and an empty one, of each operation that a lost rank had a part in.
_OF_A_LOSS = re.compile(rb"NBC_Progress: an error \d+ was found during schedule ")
_EXITED = re.compile(r"exited with non-zero status.*Process name: \S*,(\d+)\] Exit code: (\d+)")


def without_abort_banners(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines, less Open MPI's ruled boxes that repeat what the failing rank said itself.

    A rank that was killed could say nothing, and one that exited perhaps did not: of the box about
    it, one line is made.
    """
    box: list[bytes] = []
    for line in _without_losses(lines):
        line = line.replace(b"\0", b"")  # mpiexec sends one now and then, before anybody's line
        rule = _RULE.match(line)
        if box:
            box.append(line)
            if rule:
                yield from _without_banner(box)
                box = []
        elif rule:
            before, dashes = rule.groups()
            if _says_something(before):
                yield before + b"\n"
            box.append(dashes)
        elif _says_something(line) or not line.strip():
            yield line
    yield from box


def _without_losses(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines, less those about operations that failed: those who waited for them say so.

    Several ranks say it at once, and then their empty lines may come together behind them.
    """
    empty = 0
    for line in lines:
        if _OF_A_LOSS.match(line):
            empty += 1
        elif empty and not line.strip():
            empty -= 1
        else:
            yield line


def _without_banner(box: list[bytes]) -> list[bytes]:
    text = " ".join(b"".join(box).decode(errors="replace").split())  # lines break anywhere
    killed = _KILLED.search(text)
    if killed:
        return [_death_of_a_rank(killed).encode()]
    exited = _EXITED.search(text)
    if exited:
        rank, code = exited.groups()
        return [f"rank {rank} exited with code {code}; the job has been stopped\n".encode()]
    return [] if any(end in text for end in _OUR_END) else box


def _death_of_a_rank(killed: re.Match[str]) -> str:
    rank, host, number, name = killed.groups()
    line = f"rank {rank} was ended by signal {number} ({name}) on {host}; the job has been stopped"
    if int(number) == signal.SIGKILL:
        line += " (if nobody killed it: the system does so when memory runs out)"
    elif int(number) == signal.SIGILL:
        line += " (this machine may announce what it cannot do: see `phalanx doctor`)"
    return line + "\n"


def _says_something(line: bytes) -> bool:
    """Whether there is anything to read; Open MPI's messages can have a stray byte between them."""
    return any(
        character.isprintable() and not character.isspace()
        for character in line.decode(errors="ignore")
    )
