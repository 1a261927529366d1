"""A 400-25-10 sigmoid network by full-batch descent, on one rank and on two.

`gather` is the scheme that is taught: rank 0 scatters inputs and labels, gathers the gradients of
theta1 and of theta2, steps, and broadcasts.

    python -m examples.digits_mat.run --data ex4data1.mat --weights ex4weights.mat
    python -m examples.digits_mat.run --fashion FOLDER

Without --data, the digits are those that ship with Phalanx, enlarged to 20×20 pixels. With
--fashion, the same network learns Fashion-MNIST, its images averaged down to 20×20 pixels.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from statistics import mean

from examples.commands import Training, show, train
from examples.digits_mat.data import write_digits

NETWORK = (
    *("--model", "mlp", "--hidden", "25", "--activation", "sigmoid"),
    *("--loss", "binary-cross-entropy"),
)
DESCENT = (
    *("--batch-size", "full", "--optimizer", "sgd", "--learning-rate", "0.1"),
    *("--init", "uniform:0.12", "--profile"),
)
#: Sequential, and three ways to share the samples of every iteration.
RANKS = {"single": 1, "gather": 2, "allreduce": 2, "central": 2}
#: The network has two matrices, and `gather` can gather their gradients one after the other.
MORE = {"gather": ("--by-layer",)}
_LAYER = "gather layer "


def main() -> None:
    arguments = parse_arguments()
    output: Path = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    if arguments.fashion is not None:
        samples = ["--dataset", "fashion-mnist", "--data-dir", arguments.fashion]
        samples += ["--pool", "20x20", "--no-normalise"]
    else:
        samples = ["--dataset", "mat", "--data-dir", mat_file(arguments), "--test-split", "0"]
    flags: list[object] = [*samples, *NETWORK, *DESCENT, "--epochs", arguments.iterations]
    if arguments.weights is not None:
        evaluate([*samples, *NETWORK, "--weights", arguments.weights])
        flags += ["--weights", arguments.weights]
    runs = {}
    for strategy in arguments.strategies:
        more: list[object] = ["--strategy", strategy, "--ranks", RANKS[strategy]]
        more += MORE.get(strategy, ())
        runs[strategy] = train([*flags, *more], output=output / strategy)
    for name, run in runs.items():
        show_iterations(name, run)
    show_phases(runs)
    conclude(runs)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, help="a .mat with X and y")
    parser.add_argument("--weights", type=Path, help="a .mat with Theta1 and Theta2 to start from")
    parser.add_argument("--fashion", type=Path, help="the folder of Fashion-MNIST")
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--strategies", nargs="+", choices=tuple(RANKS), default=tuple(RANKS))
    parser.add_argument("--output", type=Path, default=Path("digits-example"), help="a new folder")
    return parser.parse_args()


def mat_file(arguments: argparse.Namespace) -> Path:
    """The file that was named, or one with the embedded digits."""
    if arguments.data is not None:
        return Path(arguments.data)
    path: Path = arguments.output / "digits.mat"
    write_digits(path)
    return path


def evaluate(flags: list[object]) -> None:
    """Cost and accuracy of the weights as they are."""
    command = [sys.executable, "-m", "phalanx", "evaluate", *map(str, flags)]
    subprocess.run(command, check=True)


def show_iterations(name: str, run: Training) -> None:
    """The cost of every iteration, that of the weights before the step, and rank 0's phases."""
    ending = "_seconds"
    phases = [one for one in run.history if one.endswith(ending) and any(run.history[one])]
    names = [called(one.removesuffix(ending).replace("_", " ")) for one in phases]
    columns = ("iteration", "cost", *(f"{name} ms" for name in names))
    rows = [
        (str(number), f"{cost:.6f}", *(f"{1000 * seconds:.2f}" for seconds in row))
        for number, (cost, *row) in enumerate(
            zip(run.history["loss"], *(run.history[one] for one in phases), strict=True), start=1
        )
    ]
    show(f"{name}: every iteration", columns, rows)


def called(phase: str) -> str:
    """A phase as it is taught: Theta1 are the weights of the first layer, Theta2 of the second."""
    return phase.replace(_LAYER, "gather theta")


def show_phases(runs: dict[str, Training]) -> None:
    """Where the time of each run went, on average over its ranks."""
    found = {name: run.result["phases"]["seconds"] for name, run in runs.items()}
    names = dict.fromkeys(name for one in found.values() for name in one)
    rows = [
        (called(name), *(f"{1000 * mean(one.get(name, [0])):.1f} ms" for one in found.values()))
        for name in names
    ]
    show("Phases of a run", ("phase", *runs), rows)


def conclude(runs: dict[str, Training]) -> None:
    rows = [
        (
            name,
            str(run.result["ranks"]),
            f"{run.history['loss'][-1]:.6f}",
            f"{run.history['accuracy'][-1]:.2%}",
            f"{run.accuracy:.2%}",
            f"{run.seconds:.2f} s",
        )
        for name, run in runs.items()
    ]
    columns = ("strategy", "ranks", "last cost", "training accuracy", "test accuracy", "time")
    show("400-25-10", columns, rows)


if __name__ == "__main__":
    main()
