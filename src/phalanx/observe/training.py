"""One training of a comparison: `phalanx train` in a process of its own.

So its memory and its threads are its own too, and whatever becomes of it, the comparison goes on.
"""

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

from phalanx.comm.launch.child import start_child
from phalanx.errors import RunError
from phalanx.observe.plan import Planned, command
from phalanx.observe.rows import Row, row_of_result, row_without_result
from phalanx.runs.folder import read_result

#: Seconds that a training has to end its ranks after a Ctrl-C.
_PATIENCE = 6.0
#: What `phalanx train` exits with when it was asked for what cannot be done.
REFUSED = 2
_ERROR = re.compile(r"^(?:rank \d+ of \d+: )?((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Exit)\b.*)$")


def run_training(planned: Planned, folder: Path) -> Row:
    """Train into a folder; what it prints goes into a file beside it, FOLDER.log."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.with_name(folder.name + ".log")
    with log.open("wb") as output:
        code = _run([*command(planned.flags()), f"--output={folder}"], output.fileno())
    text = log.read_text(errors="replace")
    if code != 0:
        status, short = ("refused", "refused") if code == REFUSED else ("failed", "failed")
        alone = shlex.join(["phalanx", "train", *planned.flags()])
        reason = f"{cause_of(text, code)}\n  to see it alone: {alone}"
        return row_without_result(planned, status, short=short, reason=reason)  # type: ignore[arg-type]
    try:
        return row_of_result(folder.name, read_result(folder), device=planned.device)
    except RunError as error:
        return row_without_result(planned, "failed", short="failed", reason=str(error))


def _run(argv: list[str], output: int) -> int:
    """Run a command to its end, or end it if this process is interrupted; its exit code."""
    process = start_child(argv, stdout=output, stderr=subprocess.STDOUT)
    try:
        return process.wait()
    except BaseException:
        _end(process)
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_PATIENCE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def cause_of(text: str, code: int) -> str:
    """What a training that failed had to say: its error, or its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [found.group(1) for line in lines if (found := _ERROR.match(line))]
    if errors:
        return errors[-1]
    ended = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
    return f"{ended}: {lines[-1]}" if lines else ended
