"""The signals that ask a job to end, and what is said of them."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

#: What may come at any moment, from a terminal, from a person or from a batch system.
ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


@contextmanager
def held_back() -> Iterator[None]:
    """While inside, these signals wait; and those to this process always pass by threads that are
    started here. A thread takes all that there are, and the main one would sleep on."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ASKING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def by(number: int) -> str:
    """What a person calls an end by this signal."""
    return "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"


def finishing(number: int) -> str:
    """What is said as soon as the first signal comes, to ranks that end in order."""
    came = "interrupted" if number == signal.SIGINT else signal.Signals(number).name
    return f"{came}: finishing the step and writing a checkpoint; once more to end at once"
