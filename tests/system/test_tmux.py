"""A training in a real terminal, as tmux shows it."""

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.commands import PATIENCE, environment

pytestmark = pytest.mark.system("tmux")

Tmux = Callable[..., str]
TRAIN = "train --dataset synthetic --shape 8 --samples 1000000 --batch-size 1 --ranks 2"


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    """Runs a command of tmux, on a server of the test's own with one shell in it."""
    variables = environment() | {"TERM": "xterm-256color", "PS1": "$ "}
    del variables["COLUMNS"]

    def run(*arguments: str) -> str:
        command = ["tmux", "-S", str(tmp_path / "socket"), *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=True
        )
        return done.stdout

    run("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "sh")
    yield run
    run("kill-server")


def screen_with(tmux: Tmux, pattern: str, *, seconds: float = PATIENCE) -> str:
    """The screen, once it shows this."""
    deadline = time.monotonic() + seconds
    while True:
        shown = tmux("capture-pane", "-p")
        if re.search(pattern, shown):
            return shown
        assert time.monotonic() < deadline, f"no {pattern} in\n{shown}"
        time.sleep(0.1)


def steps_after(tmux: Tmux, number: int) -> int:
    """What the bar shows, once it is more than this; a screen may be half drawn."""
    deadline = time.monotonic() + PATIENCE
    while True:
        shown = tmux("capture-pane", "-p")
        found = re.search(r"epoch 1/5 ━+.* (\d+)/1000000 [\d,]+ samples/s  loss", shown)
        if found is not None and int(found[1]) > number:
            return int(found[1])
        assert time.monotonic() < deadline, f"the bar stands still at {number}:\n{shown}"
        time.sleep(0.1)


def assert_says(shown: str, sentence: str) -> None:
    """Wherever lines are broken, which the digits of a step decide; no space is kept there."""
    assert "".join(sentence.split()) in "".join(shown.split()), shown


def test_a_bar_moves_and_ctrl_c_gives_the_terminal_back(tmux: Tmux) -> None:
    command = shlex.join([sys.executable, "-m", "phalanx"])
    tmux("send-keys", f"{command} {TRAIN}; echo code $?", "Enter")
    steps_after(tmux, steps_after(tmux, 0))
    assert tmux("display-message", "-p", "#{cursor_flag}").strip() == "0"
    tmux("send-keys", "C-c")
    shown = screen_with(tmux, r"code 130")
    assert_says(shown, "interrupted: finishing the step and writing a checkpoint; once more to end")
    assert_says(shown, "interrupted: runs/synthetic-mlp-1 keeps config.json, a checkpoint of step")
    assert_says(shown, "go on with: phalanx train --resume runs/synthetic-mlp-1 --ranks 2")
    assert tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"
