"""Stacks as lines for people."""

import faulthandler
import sys
import tempfile
import threading
from types import SimpleNamespace
from typing import Any

from phalanx.comm.watch.own_process import stack_text, waits_for_ranks
from phalanx.comm.watch.stacks import dumped_lines, stack_lines


def here() -> str:
    return stack_lines(sys._getframe())


def test_the_last_call_comes_last_without_its_code() -> None:
    lines = here().splitlines()
    assert lines[-1] == f'  File "{__file__}", line {here.__code__.co_firstlineno + 1}, in here'
    assert lines[-2].endswith(", in test_the_last_call_comes_last_without_its_code")


def test_how_one_came_to_the_work_is_left_out() -> None:
    frame: Any = None
    for module in ("runpy", "__main__", "typer.main", "phalanx.cli.train", "phalanx.train", "net"):
        code = SimpleNamespace(co_filename=f"{module}.py", co_name="call")
        frame = SimpleNamespace(
            f_back=frame, f_globals={"__name__": module}, f_code=code, f_lineno=3
        )
    assert stack_lines(frame) == (
        '  File "phalanx.train.py", line 3, in call\n  File "net.py", line 3, in call\n'
    )
    assert stack_lines(frame.f_back.f_back).count("File") == 4  # nothing but the way there
    assert stack_lines(None) == ""


def test_a_dump_reads_the_same() -> None:
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=False)  # tests before may have left some
        file.seek(0)
        dump = file.read()
    lines = dumped_lines(dump, but="no such file").splitlines()
    assert f'  File "{__file__}", line ' in lines[-1]
    assert lines[-1].endswith(", in test_a_dump_reads_the_same")
    assert dumped_lines(dump, but=__file__) == ""


def test_a_dump_without_the_way_to_the_work_and_with_other_threads() -> None:
    dump = (
        "Thread 0x01 (most recent call first):\n"
        '  File "/x/phalanx/comm/watch/watch.py", line 5 in _work\n'
        "\n"
        "Current thread 0x02 (most recent call first):\n"
        '  File "/a b/net.py", line 7 in forward\n'
        '  File "/x/typer/core.py", line 3 in main\n'
        '  File "<frozen runpy>", line 198 in _run_module_as_main\n'
        "\n"
        "Thread 0x03 (most recent call first):\n"
        '  File "/x/pool.py", line 1 in load\n'
    )
    assert dumped_lines(dump, but="watch.py") == (
        '  File "/a b/net.py", line 7, in forward\n'
        "  in another thread:\n"
        '  File "/x/pool.py", line 1, in load\n'
    )


def test_other_threads_that_work_are_shown() -> None:
    ready, done = threading.Event(), threading.Event()

    def decode() -> None:
        ready.set()
        done.wait()

    thread = threading.Thread(target=decode, name="decoder")
    thread.start()
    ready.wait()
    text = stack_text()
    done.set()
    thread.join()
    assert text.index("in test_other_threads_that_work") < text.index("  in thread decoder:\n")
    assert ", in decode\n" in text
    assert not waits_for_ranks()
