"""`phalanx.launch` in plain scripts: the one of its page, and those that are ended from outside."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands import environment, left_behind

PAGE = Path(__file__).parents[3] / "docs" / "notebooks.md"
WAITS = """
import os, pathlib, time
import phalanx

def wait():
    pathlib.Path("rank-" + os.environ["OMPI_COMM_WORLD_RANK"]).touch()
    time.sleep(3600)

phalanx.launch(wait, ranks=2)
"""
FAILS = """
import phalanx

def fail():
    raise ValueError("on purpose")

phalanx.launch(fail, ranks=1)
"""


def script(folder: Path, source: str) -> list[str]:
    (folder / "script.py").write_text(source)
    return [sys.executable, "script.py"]


@pytest.mark.long
def test_the_script_of_the_page(tmp_path: Path) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    done = subprocess.run(
        script(tmp_path, source),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"2 ranks, accuracy ([\d.]+)%, 4 tensors\n", done.stdout)
    assert found, done.stdout
    assert float(found.group(1)) > 90


def test_an_uncaught_failure_is_said_once(tmp_path: Path) -> None:
    done = subprocess.run(
        script(tmp_path, FAILS),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        "RankFailedError: rank 0 of 1: ValueError: on purpose\n\nTraceback"
    )
    assert 'script.py", line 5, in fail\n    raise ValueError("on purpose")\n' in done.stderr
    assert done.stderr.count("Traceback") == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_rank_survives_its_script(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(script(tmp_path, WAITS), cwd=tmp_path, env=environment()) as process:
        deadline = time.monotonic() + 120
        while len(list(tmp_path.glob("rank-*"))) < 2:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait() == -number
    assert left_behind(tmp_path, seconds=60) == []
