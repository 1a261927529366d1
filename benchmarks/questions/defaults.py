"""What does each model reach by its defaults? `python -m benchmarks.questions.defaults`

One training after the other, as a user starts it who says nothing but the data and the model:
`phalanx train --dataset digits --model NAME`. One that takes longer than `--seconds` is ended, and
one whose model does not take such samples is left out. `--dataset mnist --data-dir DIR` and
`--models mlp,simplecnn` ask about others; `--ranks 2` is passed on.
"""

import json
import subprocess
import sys
import time
from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from phalanx import models


@dataclass(frozen=True)
class Reached:
    """What came of one training: a test accuracy, or why there is none."""

    model: str
    seconds: float
    accuracy: float | None = None
    why: str = ""

    def __str__(self) -> str:
        found = self.why if self.accuracy is None else f"{self.accuracy:7.2%}"
        return f"{self.model:24} {self.seconds:6.1f} s  {found}"


def train(model: str, given: list[str], *, seconds: float) -> Reached:
    """One training, from its start to its end."""
    begun = time.monotonic()
    with TemporaryDirectory() as name:
        run = Path(name) / "run"
        command = [sys.executable, "-m", "phalanx", "train", *given, "--model", model]
        try:
            done = subprocess.run(
                [*command, "--output", str(run)],
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Reached(model, seconds, why=f"takes longer than {seconds:.0f} s")
        took = time.monotonic() - begun
        if done.returncode:
            why = (done.stderr.strip() or done.stdout.strip() or "?").splitlines()[-1]
            return Reached(model, took, why=why)
        return Reached(
            model, took, json.loads((run / "result.json").read_text())["test"]["accuracy"]
        )


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--data-dir")
    parser.add_argument("--models", default=",".join(one.name for one in models.describe()))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--ranks", default="1")
    asked = parser.parse_args()
    given = ["--dataset", asked.dataset, "--ranks", asked.ranks]
    given += [] if asked.data_dir is None else ["--data-dir", asked.data_dir]
    for model in asked.models.split(","):
        print(train(model, given, seconds=asked.seconds), flush=True)


if __name__ == "__main__":
    main()
