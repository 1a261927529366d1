"""Who has come to the end of a job that may lose ranks: mpiexec's exit code does not tell.

It is 0 even where every rank was killed. So a rank reports that it is about to start MPI, that it
has, and that it ends in order, and with how many others, in lines among its errors that the
launcher keeps to itself.
"""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple, final

#: Set for the ranks of a launcher that listens.
_VARIABLE = "PHALANX_ROLL_CALL"
_REPORT = re.compile(rb"\x1ephalanx:(here|begun|done|failed):(\d+)\x1e\n?")


class _Rank(NamedTuple):
    process: int
    #: Where this rank's errors went at first; its program may send later ones elsewhere.
    errors: int
    #: How many there are of them, this one included.
    ranks: int


_this: list[_Rank] = []


def arrive() -> None:
    """Tell the launcher, if it listens, that this rank is about to meet the others."""
    if _VARIABLE in os.environ and not _this:
        _this[:] = [_Rank(os.getpid(), os.dup(2), 0)]
        _report("here", 0)


def begin(ranks: int) -> None:
    """Tell it that this rank is one of so many from now on."""
    if _this:
        _this[:] = [_this[0]._replace(ranks=ranks)]
        _report("begun", ranks)


def end() -> None:
    """Tell it that this rank, if it has begun, has done all that it was to do."""
    if _this and _this[0].ranks and _this[0].process == os.getpid():  # not a fork of it
        _report("done", _this[0].ranks)


def fail(code: int) -> None:
    """Tell it that this rank ends the job with this code, having said why."""
    if _this:
        _report("failed", code)


def _report(what: str, number: int) -> None:
    with suppress(OSError):  # nobody listens any more
        os.write(_this[0].errors, f"\x1ephalanx:{what}:{number}\x1e\n".encode())


@final
class RollCall:
    """The launcher's side: reads along what ranks write to standard error."""

    def __init__(self, *, listens: bool) -> None:
        self._listens = listens
        #: Whether some rank waits for the others to start MPI, and whether they all have.
        self.is_awaited = self.has_begun = False
        #: How many have ended, by how many there were of them.
        self._done: Counter[int] = Counter()
        self._failed = 0

    def variables(self) -> Mapping[str, str]:
        """What the ranks' environment has to say."""
        return {_VARIABLE: "1"} if self._listens else {}

    def watch(self, source: Iterable[bytes]) -> Iterator[bytes]:
        """The same lines, as they come, without reports."""
        for line in source:
            reports = _REPORT.findall(line)
            for what, number in reports:
                self.is_awaited = True
                self.has_begun = self.has_begun or what != b"here"
                if what == b"done":
                    self._done[int(number)] += 1
                if what == b"failed":
                    self._failed = int(number)
            rest = _REPORT.sub(b"", line) if reports else line
            if rest:
                yield rest

    def code(self) -> int:
        """What a job ends with that mpiexec calls a success; says why, if it is none."""
        if self._failed or not self.has_begun:  # else some program that reports nothing
            return self._failed
        if not self._done:
            print("no rank has come to the end of its program", file=sys.stderr, flush=True)
            return 1
        left = min(self._done)
        if self._done[left] >= left:
            return 0
        said = f"{left - self._done[left]} of the last {left} ranks did not come to their end"
        print(said, file=sys.stderr, flush=True)
        return 1
