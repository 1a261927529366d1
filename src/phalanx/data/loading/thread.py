"""The thread that fetches ahead what is read from files by itself, without a worker."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any


def in_thread(function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
    """Have it called beside the training, behind all that was asked for before."""
    return _thread().submit(function, *arguments)


@cache
def _thread() -> ThreadPoolExecutor:
    """One for the process; a fork would not do, beside MPI."""
    return ThreadPoolExecutor(1, thread_name_prefix="fetch")
