"""Signals that ask for an end: which thread of a process they come to."""

import signal
import threading

from phalanx.comm.launch.asking import ASKING, held_back


def test_signals_pass_by_threads_that_are_started_while_they_wait() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    masks: list[set[signal.Signals | int]] = []
    thread = threading.Thread(
        target=lambda: masks.append(set(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
    )
    with held_back():
        thread.start()
    thread.join()
    assert set(ASKING) <= masks[0]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
