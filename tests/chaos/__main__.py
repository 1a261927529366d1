"""Random faults, one after the other, and a table of what came of them.

    python -m tests.chaos --faults 200 --seed 1
    python -m tests.chaos --seed 1 --only 17
    python -m tests.chaos --kind checkpoint --faults 200

Everything follows from the seed but what a few milliseconds change. The folders of what went wrong
stay. The exit code is 1 if anything did.
"""

import argparse
import math
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.faults import KINDS, Fault, draw
from tests.chaos.job import shown
from tests.chaos.table import rows, text
from tests.chaos.trial import Outcome, Undisturbed, try_out
from tests.chaos.writers import kill_writers


def main() -> int:
    """The exit code."""
    asked = _asked()
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    wrong = 0
    if asked.kind != "checkpoint":
        numbers = range(asked.first, asked.first + asked.faults)
        faults = [draw(asked.seed, one, asked.kind) for one in asked.only or numbers]
        outcomes = try_all(faults, folder, minutes=asked.minutes)
        print(text(rows(outcomes)), flush=True)
        skipped = [one for one in outcomes if one.skipped]
        for why in sorted({one.skipped for one in skipped}):
            print(f"{sum(one.skipped == why for one in skipped)} not counted: {why}")
        wrong = sum(bool(one.problems) for one in outcomes)
    if asked.kind in (None, "checkpoint") and not asked.only:
        wrong += _writers(folder / "checkpoints", asked.faults, seed=asked.seed)
    if not wrong:
        shutil.rmtree(folder)
    return int(wrong > 0)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=200, help="how many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--only", type=int, nargs="*", help="the numbers of some")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin none later")
    parser.add_argument("--kind", choices=[*KINDS, "checkpoint"], help="of one kind alone")
    return parser.parse_args()


def try_all(faults: list[Fault], folder: Path, *, minutes: float = math.inf) -> list[Outcome]:
    """One after the other, as many as begin in so many minutes; says how each went."""
    undisturbed = Undisturbed(folder / "undisturbed")
    outcomes: list[Outcome] = []
    end = time.monotonic() + 60 * minutes
    for fault in faults:
        if time.monotonic() > end:
            print(f"the time is over: {len(outcomes)} of {len(faults)} were tried")
            break
        print(fault, flush=True)
        started, place = time.monotonic(), folder / str(fault.number)
        one = try_out(fault, place, undisturbed)
        outcomes.append(one)
        said = one.skipped or "; ".join(one.problems) or "as it should be"
        print(f"  {said} ({time.monotonic() - started:.0f} s)", flush=True)
        if one.problems:
            for job in one.jobs:
                print(shown(job), flush=True)
            again = f"--seed {fault.seed} --kind '{fault.kind}' --only {fault.number}"
            print(f"again: python -m tests.chaos {again}", flush=True)
        else:
            shutil.rmtree(place)
    return outcomes


def _writers(folder: Path, kills: int, *, seed: int) -> int:
    """How many of so many kills of a writer went wrong."""
    started = time.monotonic()
    problems = kill_writers(folder, kills, seed=seed)
    took = time.monotonic() - started
    good = f"{kills - len(problems)} of {kills}"
    print(f"kill -9 while checkpoints are written: {good} went on from a whole one ({took:.0f} s)")
    print("".join(f"  {one}\n" for one in problems), end="", flush=True)
    return len(problems)


if __name__ == "__main__":
    sys.exit(main())
