"""What checkpoints cost, ours beside torch's own, in less than five minutes.

`python -m benchmarks.checkpoints` trains VGG-11 with Adam on two ranks, with a checkpoint every
step, every ten and none, in turn in the same processes; and has each write some by themselves.
"""

import sys
from argparse import ArgumentParser
from pathlib import Path

from benchmarks.checkpoints.costs import ALONE, checkpoints_table, measure_checkpoints, ways


def main() -> None:
    parser = ArgumentParser(prog="python -m benchmarks.checkpoints", description=__doc__)
    parser.add_argument("--rows", nargs="+", help="how the names of those to run begin")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="at most, as time allows [3]")
    parser.add_argument("--folder", type=Path, help="below which to write [of temporary files]")
    parser.add_argument("--quick", action="store_true", help="a smoke run: numbers mean nothing")
    arguments = parser.parse_args()
    rows = tuple(arguments.rows or [""])
    results = measure_checkpoints(
        [way for way in ways(arguments.ranks) if way.name.startswith(rows)],
        rounds=arguments.rounds,
        seconds=ALONE,
        say=lambda text: print(text, flush=True),
        folder=arguments.folder,
        quick=arguments.quick,
    )
    print("\n" + checkpoints_table(results))
    sys.exit(any(isinstance(costs, str) for costs in results.values()))


if __name__ == "__main__":
    main()
