"""The thread that fetches ahead what is read from files by itself, without a worker."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import final

from torch import Tensor

#: Seconds from which on it pays to have a thread fetch: to hand over to it, on the core where this
#: process computes, takes some 50 microseconds. Two threads that take turns on one core thousands
#: of times a second were also seen to keep everything else from it: Linux 6.18 ran neither the
#: terminal nor its own workers for 45 s.
_WORTH_A_THREAD = 0.0002
_REMEMBERED = 16


@final
class Fetching:
    """Fetches samples where they are needed, or ahead by a thread, if they take so long."""

    def __init__(self, fetch: Callable[[Tensor], Tensor]) -> None:
        self._fetch = fetch
        #: What it has taken of late, less what was a mishap of one call.
        self._seconds = self._last = 0.0

    def __call__(self, indices: Tensor) -> Tensor:
        """Fetch them now."""
        began = time.perf_counter()
        fetched = self._fetch(indices)
        last, self._last = self._last, time.perf_counter() - began
        self._seconds += (min(last, self._last) - self._seconds) / _REMEMBERED
        return fetched

    def ahead(self, indices: Tensor) -> "Future[Tensor] | None":
        """Have them fetched beside the training, behind all that was asked for before; None if
        they are had sooner by a call when they are needed."""
        if self._seconds < _WORTH_A_THREAD:
            return None
        return _thread().submit(self._fetch, indices)


@cache
def _thread() -> ThreadPoolExecutor:
    """One for the process; a fork would not do, beside MPI."""
    return ThreadPoolExecutor(1, thread_name_prefix="fetch")
