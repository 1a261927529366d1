"""What a person at a terminal sees: a bar that moves, and a terminal that is left as it was."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.commands import left_behind
from tests.terminal import CTRL_C, Terminal

#: An epoch without an end: nothing of what is seen can have waited for one.
ENDLESS = ("train", "--dataset", "synthetic", "--shape", 8, "--samples", 10**6, "--batch-size", 1)

Open = Callable[..., Terminal]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Open]:
    opened: list[Terminal] = []

    def start(*arguments: object, columns: int = 120) -> Terminal:
        opened.append(Terminal(*arguments, folder=tmp_path, columns=columns))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def counts(text: str) -> list[int]:
    """The steps that a bar has shown, one after the other."""
    return [int(count) for count in re.findall(r" (\d+)/1000000 ", text)]


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_bar_moves_and_ctrl_c_leaves_a_clean_terminal(
    terminal: Open, tmp_path: Path, ranks: int
) -> None:
    here = terminal(*ENDLESS, "--ranks", ranks)
    here.wait_until(lambda text: len(set(counts(text))) > 2, "bar that moves")
    assert "\x1b[?25l" in here.text
    here.press(CTRL_C)
    assert here.wait() == 130
    assert here.text.rfind("\x1b[?25h") > here.text.rfind("\x1b[?25l"), "the cursor is hidden"
    lines = here.text.splitlines()
    words = "interrupted: finishing the step and writing a checkpoint; once more to end at once"
    assert any(line.endswith(words) for line in lines)
    assert re.search(
        r"interrupted: runs/synthetic-mlp-1 keeps config.json, a checkpoint of step [\d,]+, "
        r"in epoch 1; go on with: phalanx train --resume runs/synthetic-mlp-1",
        lines[-1],
    )
    assert left_behind(tmp_path) == []


def test_a_rank_that_fails_says_so_on_a_line_of_its_own(terminal: Open, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import os\nfrom torch import nn\n"
        "class Net(nn.Linear):\n"
        "    def __init__(self):\n        super().__init__(8, 10)\n        self.calls = 0\n"
        "    def forward(self, inputs):\n        self.calls += 1\n"
        "        if self.calls > 200 and os.environ['OMPI_COMM_WORLD_RANK'] == '1':\n"
        "            raise RuntimeError('the seventh seal')\n"
        "        return super().forward(inputs)\n"
    )
    here = terminal(*ENDLESS, "--model", "net.py:Net", "--batch-size", 2, "--ranks", 2)
    assert here.wait() == 1
    lines = here.text.splitlines()
    assert any(line.startswith("rank 1 of 2: Traceback") for line in lines), lines[-20:]
    assert here.text.rfind("\x1b[?25h") > here.text.rfind("\x1b[?25l")


def test_finished_epochs_stand_as_lines(terminal: Open) -> None:
    here = terminal("train", "--epochs", 2, "--metrics", "top-5,mse", "--ranks", 2, columns=80)
    assert here.wait() == 0
    for epoch in (1, 2):
        assert re.search(rf"epoch {epoch}/2  [\d,]+ samples/s  loss [^\n]*top-5", here.text)
    assert "…" not in here.text
    assert re.search(r"test: loss \S+  accuracy \S+  top-5 \S+  mse \S+", here.text)
