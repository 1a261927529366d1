"""A thread looks at its process without any effect on what that has in memory."""

import gc
import threading
import weakref

from phalanx.comm.watch.own_process import stack_text, waits_for_ranks


class Large:
    """Stands for data that a function has loaded."""


def looked_at() -> "weakref.ref[Large]":
    data = Large()
    for look in (waits_for_ranks, stack_text):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    return weakref.ref(data)


def test_a_look_holds_on_to_nothing() -> None:
    gc.disable()  # as good as: a training has it look seldom
    try:
        assert looked_at()() is None
    finally:
        gc.enable()
