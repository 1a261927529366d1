"""Reading damaged files in a process of its own, with a bound on its memory and on its time."""

import json
import os
import re
import resource
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from phalanx.errors import PhalanxError

#: What reading one damaged file may take, above what the process has before.
MOST_BYTES = 512 << 20
MOST_SECONDS = 20
#: The kernel refuses the process more: what is only claimed must not be asked for.
_ADDRESS_BYTES = 2 << 30


@dataclass(frozen=True)
class Outcome:
    """How reading a file ended: "right", "refused", or what went wrong."""

    number: int
    end: str
    seconds: float = 0
    bytes: int = 0


@dataclass
class Figures:
    """What reading many files came to."""

    ends: Counter[str] = field(default_factory=Counter)
    seconds: float = 0
    bytes: int = 0
    failures: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        good = outcome.end in ("right", "refused") and outcome.bytes <= MOST_BYTES
        self.ends[outcome.end if good else "wrong"] += 1
        self.seconds = max(self.seconds, outcome.seconds)
        self.bytes = max(self.bytes, outcome.bytes)
        if not good:
            self.failures.append(outcome)

    def __str__(self) -> str:
        ends = ", ".join(f"{count} {end}" for end, count in sorted(self.ends.items()))
        memory = f"{self.bytes / 2**20:.0f} MiB"
        return f"{self.ends.total()} files: {ends}; at most {memory} and {self.seconds:.2f} s"


def read_all(read: Callable[[int], None], count: int) -> Figures:
    """Call `read` with each number below `count`, in as many processes as it takes."""
    figures = Figures()
    number = 0
    while number < count:
        for outcome in _in_child(read, range(number, count)):
            figures.add(outcome)
            number = outcome.number + 1
    return figures


def _in_child(read: Callable[[int], None], numbers: range) -> Iterator[Outcome]:
    """The outcomes as they come; the last one is of a file that ended the process, if one did."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.close(receiving)
            _serve(read, numbers, sending)
        os._exit(0)
    os.close(sending)
    number = numbers.start
    with open(receiving) as lines:
        for line in lines:
            yield Outcome(**json.loads(line))
            number += 1
    _, status = os.waitpid(child, 0)
    if number < numbers.stop:
        died = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        end = "hangs" if died == signal.SIGALRM else f"the process ended: {status}"
        yield Outcome(number, end, MOST_SECONDS if died == signal.SIGALRM else 0)


def _serve(read: Callable[[int], None], numbers: range, sending: int) -> None:
    torch.set_num_threads(1)  # those of the parent are not there after a fork
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    limit = _kernel("VmSize") + _ADDRESS_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in numbers:
        outcome = _outcome(read, number)
        os.write(sending, json.dumps(asdict(outcome)).encode() + b"\n")


def _outcome(read: Callable[[int], None], number: int) -> Outcome:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # forget what was the most
    before, start = _kernel("VmRSS"), time.monotonic()
    signal.alarm(MOST_SECONDS)
    end = "right"
    try:
        read(number)
    except PhalanxError as error:
        end = "refused" if len(str(error)) < 20_000 else "a message of a book's length"
    except BaseException as error:
        end = "".join(traceback.format_exception(error))[-1000:]
    signal.alarm(0)
    return Outcome(number, end, time.monotonic() - start, _kernel("VmHWM") - before)


def _kernel(name: str) -> int:
    """What the kernel counts of this process, in bytes."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10
