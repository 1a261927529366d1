"""The Python stacks of a process as lines for people: the last call last, and only its work.

Without the lines of code: to read them could take forever, on a file system that is dead.
"""

import re
from collections.abc import Iterator
from types import FrameType

#: How one came to the work explains nothing.
_BEFORE_WORK = ("typer", "click", "phalanx.cli", "phalanx.__main__", "__main__", "runpy")
_FILES_BEFORE_WORK = re.compile(
    r'"(\S*/(typer|click|phalanx/cli)/\S*|\S*/__main__\.py|<frozen \S+)"'
)
#: A line of faulthandler's.
_DUMPED = re.compile(r'\s*File (".*"), line (\S+) in (.*)')


def frames_of(frame: FrameType | None) -> Iterator[FrameType]:
    """From the last call outwards."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def stack_lines(frame: FrameType | None) -> str:
    """Where a thread is."""
    calls = list(frames_of(frame))[::-1]
    is_work = [not module_of(one).startswith(_BEFORE_WORK) for one in calls]
    return "".join(
        _line(f'"{one.f_code.co_filename}"', str(one.f_lineno), one.f_code.co_name)
        for one in calls[is_work.index(True) if True in is_work else 0 :]
    )


def dumped_lines(dump: str, *, but: str) -> str:
    """The same from what faulthandler writes of all threads, but for those that are in a file."""
    text = ""
    for thread in dump.split("\n\n"):
        calls = [found for line in thread.splitlines() if (found := _DUMPED.match(line))][::-1]
        if not calls or any(but in call[1] for call in calls):
            continue
        is_work = [not _FILES_BEFORE_WORK.match(call[1]) for call in calls]
        start = is_work.index(True) if True in is_work else 0
        text += "  in another thread:\n" if text else ""
        text += "".join(_line(*call.groups()) for call in calls[start:])
    return text


def _line(file: str, line: str, function: str) -> str:
    return f"  File {file}, line {line}, in {function}\n"
