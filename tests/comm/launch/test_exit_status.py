"""With what status a process ends, noticed before it has ended."""

import subprocess
import sys
from pathlib import Path

import pytest

from phalanx.comm.launch import exit_status
from tests.commands import PATIENCE

PROGRAM = """
import atexit, sys, threading
import exit_status
exit_status.notice_exits()
exit_status.notice_exits()
atexit.register(lambda: print(exit_status.exit_status()))

class Own(SystemExit):
    pass

try:
    raise SystemExit(5)
except SystemExit as error:
    error.code += 1
    assert (error.code, error.args) == (6, (5,))
thread = threading.Thread(target=sys.exit, args=(4,))
thread.start()
thread.join()
{end}
"""


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("raise SystemExit(3)", 3),
        ("raise Own(9)", 9),
        ("raise SystemExit", 0),
        ("raise SystemExit(-1)", 255),
        ("sys.exit(7)", 7),
        ("sys.exit('a text')", 1),
        ("exit(2)", 2),
        ("", 0),
    ],
)
def test_every_way_to_end(end: str, status: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(end=end)],
        cwd=Path(exit_status.__file__).parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (status, f"{status}\n"), done.stderr
