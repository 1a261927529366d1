"""The demo behind `make demo`: one network, on one rank and on two, timed side by side.

The runs are interleaved and repeated, and the table shows medians: other programs on the machine
then disturb all rows alike. `single` is shown with one thread and with all cores, because a torch
process uses all cores by itself and two ranks have to beat that, too.
"""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from phalanx.comm.launch.process import available_cores
from phalanx.runs.folder import read_result

REPEATS = 3
TRAINING = (
    *("--dataset", "digits", "--model", "simplecnn", "--epochs", "150", "--batch-size", "512"),
    *("--optimizer", "sgd", "--learning-rate", "0.1", "--momentum", "0.9"),
)


def main() -> None:
    cores = available_cores()
    variants = [("single", 1, 1), ("central", 2, max(1, cores // 2))]
    if cores > 1:
        variants.insert(1, ("single", 1, cores))
    results: dict[tuple[str, int, int], list[dict[str, Any]]] = {one: [] for one in variants}
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(REPEATS):
            for variant in variants:
                output = Path(folder) / f"{'-'.join(map(str, variant))}-{repeat}"
                # The first round shows what `phalanx train` prints; the others only measure.
                results[variant].append(train(variant, output, show=repeat == 0))
    show(results)


def train(variant: tuple[str, int, int], output: Path, *, show: bool) -> dict[str, Any]:
    """Run `phalanx train` as a user would; what its run folder says came out."""
    strategy, ranks, threads = variant
    flags = ["--strategy", strategy, "--ranks", str(ranks), "--threads", str(threads)]
    if show:
        print(f"\n$ phalanx train {' '.join([*TRAINING, *flags])}", flush=True)
    command = [sys.executable, "-m", "phalanx", "train", *TRAINING, *flags]
    subprocess.run(
        [*command, "--output", str(output)], check=True, stdout=None if show else subprocess.DEVNULL
    )
    return read_result(output)


def show(results: dict[tuple[str, int, int], list[dict[str, Any]]]) -> None:
    table = Table(title=f"The same training, median of {REPEATS}", title_justify="left")
    for column in (
        "strategy",
        "ranks",
        "threads",
        "time",
        "samples/s",
        "test accuracy",
        "speed-up",
    ):
        table.add_column(column, justify="left" if column == "strategy" else "right")
    baseline = 0.0
    for (strategy, ranks, threads), repeats in results.items():
        rate = statistics.median(one["samples_per_second"] for one in repeats)
        seconds = statistics.median(one["seconds"] for one in repeats)
        baseline = baseline or rate
        table.add_row(
            strategy,
            str(ranks),
            str(threads),
            f"{seconds:.2f} s",
            f"{rate:,.0f}",
            f"{repeats[0]['test']['accuracy']:.2%}",
            f"{rate / baseline:.2f}×",
        )
    print()
    Console(width=None if sys.stdout.isatty() else 100).print(table)


if __name__ == "__main__":
    main()
