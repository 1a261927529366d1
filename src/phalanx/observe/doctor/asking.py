"""Ask a program, for a limited time: whatever it does, there is an answer, and nothing is left."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from phalanx.comm.launch.child import start_child
from phalanx.comm.launch.preflight import home_folder

_TORCH = """
import json, torch
count = torch.cuda.device_count() if torch.cuda.is_available() else 0
print(json.dumps({
    "version": torch.__version__, "cuda": torch.version.cuda, "hip": torch.version.hip,
    "threads": torch.get_num_threads(), "nccl": torch.distributed.is_nccl_available(),
    "gpus": [torch.cuda.get_device_name(n) for n in range(count)],
}))
"""
#: What a program gets to end in order, once it is told to.
_SECONDS_TO_END = 5.0
#: Lines of a program's errors that are worth showing.
_SHOWN = 3


class Answer(NamedTuple):
    """What a program said, and how it ended."""

    #: Its exit code, below 0 for a signal; None if it was ended, because its time was over.
    code: int | None
    output: str
    errors: str

    @property
    def why(self) -> str:
        """How it failed, in a line."""
        lines = [line.strip() for line in self.errors.splitlines()]
        told = [line for line in lines if any(map(str.isalnum, line))]
        if self.code is None:
            end = "it did not end in time"
        elif self.code < 0:
            end = f"ended by {signal.Signals(-self.code).name}"
        else:
            end = f"exit code {self.code}"
        # The last line of a traceback has the error; what launchers say begins with it.
        shown = told[-1:] if "Traceback" in self.errors else told[:_SHOWN]
        return f"{' '.join(shown)} ({end})" if shown else end


def python(*arguments: str) -> list[str]:
    """This Python with arguments; modules in the folder that one is in do not count."""
    return [sys.executable, "-P", *arguments]


def ask(argv: Sequence[str], *, seconds: float) -> Answer:
    """Run a program to its end, or for so long."""
    variables = {**os.environ, "HOME": home_folder()}  # which mpiexec will not do without
    process = start_child(argv, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    code: int | None = None
    try:
        output, errors = process.communicate(timeout=seconds)
        code = process.returncode
    except subprocess.TimeoutExpired:
        output, errors = _ended(process)
    finally:
        _kill(process)
    return Answer(code, output.decode(errors="replace"), errors.decode(errors="replace"))


def _ended(process: "subprocess.Popen[bytes]") -> tuple[bytes, bytes]:
    """End a program, in order if it will; what it has said, also if others hold its pipes open."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        return process.communicate(timeout=_SECONDS_TO_END)
    _kill(process)
    try:
        return process.communicate(timeout=_SECONDS_TO_END)
    except subprocess.TimeoutExpired as error:
        return error.output or b"", error.stderr or b""


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Leave nothing of a program, nor of what it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_SECONDS_TO_END)


@cache
def torch_facts(seconds: float) -> Any:
    """What torch says of itself in a process of its own; a text, if it cannot be imported."""
    answer = ask(python("-c", _TORCH), seconds=seconds)
    return json.loads(answer.output) if answer.code == 0 else answer.why
