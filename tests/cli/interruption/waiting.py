"""A model that waits where a test wants it to: nothing depends on how fast a machine is."""

import subprocess
import time
from pathlib import Path

from tests.commands import PATIENCE

#: Its file; as data to go with it `SAMPLES`, of 32 steps an epoch.
FILE = "net.py"
SAMPLES = ("--dataset", "synthetic", "--shape", 8, "--samples", 512, "--batch-size", 16)
#: Of the last rank of two, if there are any. Where it waits for `go on` it does so once.
_NET = """
import os, pathlib, time
from torch import nn

RANK = os.environ.get("OMPI_COMM_WORLD_RANK", "1")
HERE, GO_ON = pathlib.Path("here"), pathlib.Path("go on")

class Net(nn.Linear):
    def __init__(self, where="never", who="1"):
        super().__init__(8, 10)
        self.where, self.waits, self.passes = where, RANK == who, 0
        if where == "begin":
            self.stand_still()

    def stand_still(self):
        HERE.touch()
        time.sleep(1000)

    def forward(self, inputs):
        self.passes += self.training
        if self.training and self.where == "step" and self.waits:  # others wait for it
            self.stand_still()
        if self.where == "pass 70" and self.passes == 70 and self.waits and not HERE.exists():
            HERE.touch()
            while not GO_ON.exists():
                time.sleep(0.01)
        if not self.training and self.where == "test" and self.passes:
            self.stand_still()
        return super().forward(inputs)
"""


def waits(folder: Path, where: str, *, who: int = 1) -> tuple[object, ...]:
    """Flags for a model that waits there, on this rank, in a job of this folder."""
    (folder / FILE).write_text(_NET)
    return ("--model", f"{FILE}:Net", "--where", where, "--who", who)


def until_it_waits(folder: Path, process: subprocess.Popen[str]) -> None:
    """It is where it was told to wait."""
    deadline = time.monotonic() + PATIENCE
    while not (folder / "here").exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def go_on(folder: Path) -> None:
    """Have it wait no longer."""
    (folder / "go on").touch()
