"""A 400-25-10 sigmoid network by full-batch descent, sequentially and in parallel, line by line.

`gather` is the scheme of the report: rank 0 scatters inputs and labels, gathers the gradients of
theta1 and of theta2, steps, and broadcasts.

    python -m examples.digits_mat.run --data ex4data1.mat --weights ex4weights.mat
    python -m examples.digits_mat.run --fashion FOLDER

Without --data, the digits are those that ship with Phalanx, enlarged to 20×20 pixels. With
--fashion, the same network learns Fashion-MNIST, its images averaged down to 20×20 pixels.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

from examples.commands import Training, show, train
from examples.digits_mat.data import write_digits

NETWORK = (
    *("--model", "mlp", "--hidden", "25", "--activation", "sigmoid"),
    *("--loss", "binary-cross-entropy"),
)
LEARNING_RATE = 0.1
DESCENT = (
    *("--batch-size", "full", "--optimizer", "sgd", "--learning-rate", LEARNING_RATE),
    *("--init", "uniform:0.12", "--dtype", "float64", "--profile"),
    *("--callback", f"{Path(__file__).with_name('dots.py')}:Dots"),
)
SEQUENTIAL = "single"
#: Three ways to share the samples of every iteration.
PARALLEL = ("gather", "allreduce", "central")
#: The network has two matrices, and `gather` can gather their gradients one after the other.
MORE = {"gather": ("--by-layer",)}
#: The report's lines of an iteration, by the phase that each is the time of.
COMPUTED = {
    "hidden layer dot": "construction: hidden layer dot costs {} secs",
    "output layer dot": "construction: output layer dot costs {} secs",
    "forward": "forward prop: costs {} secs",
    "backward": "back prop: costs {} secs",
}
#: Those of its own scheme, in its order. Others broadcast once, before the first iteration.
GATHERED = {
    "broadcast": "Bcast theta1 and theta2 uses {} secs.",
    "scatter inputs": "Scatter inputs uses {} secs.",
    "scatter labels": "Scatter labels uses {} secs.",
    **COMPUTED,
    "gather layer 1": "Gather theta1 uses {} secs.",
    "gather layer 2": "Gather theta2 uses {} secs.",
}


def main() -> None:
    arguments = parse_arguments()
    try:
        run(arguments)
    except subprocess.CalledProcessError as error:
        # The command has said what was wrong.
        sys.exit(error.returncode)


def run(arguments: argparse.Namespace) -> None:
    output: Path = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    if arguments.fashion is not None:
        samples = ["--dataset", "fashion-mnist", "--data-dir", arguments.fashion]
        samples += ["--pool", "20x20", "--no-normalise"]
    else:
        samples = ["--dataset", "mat", "--data-dir", mat_file(arguments), "--test-split", "0"]
    flags: list[object] = [*samples, *NETWORK, *DESCENT, "--epochs", arguments.iterations]
    flags += ["--device", arguments.device]
    if arguments.weights is not None:
        evaluate([*samples, *NETWORK, "--weights", arguments.weights])
        flags += ["--weights", arguments.weights]
    runs = {}
    for strategy in arguments.strategies:
        ranks = 1 if strategy == SEQUENTIAL else arguments.ranks
        more: list[object] = ["--strategy", strategy, "--ranks", ranks, *MORE.get(strategy, ())]
        runs[strategy] = train([*flags, *more], output=output / strategy)
        show_iterations(runs[strategy])
    show_phases(runs)
    conclude(runs)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, help="a .mat with X and y")
    parser.add_argument("--weights", type=Path, help="a .mat with Theta1 and Theta2 to start from")
    parser.add_argument("--fashion", type=Path, help="the folder of Fashion-MNIST")
    parser.add_argument("--iterations", type=int, default=60)
    known = (SEQUENTIAL, *PARALLEL)
    parser.add_argument("--strategies", nargs="+", choices=known, default=known)
    parser.add_argument("--ranks", type=int, default=2, help="of all strategies but single")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
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


def show_iterations(run: Training) -> None:
    """The report's lines: each iteration's phases on rank 0, and its cost, before the step."""
    print("GPU mode" if run.result["device"].startswith("cuda") else "CPU mode")
    print("Parallelism:", "yes" if run.result["ranks"] > 1 else "no")
    gathered = run.result["strategy"] == "gather"
    for line in iterations(run.history, GATHERED if gathered else COMPUTED):
        print(line)
    print(f"precision: {run.accuracy}\n", flush=True)


def iterations(history: dict[str, list[float]], phases: dict[str, str]) -> Iterator[str]:
    """The lines of all iterations, every number as long as it is."""
    columns = [f"{phase.replace(' ', '_')}_seconds" for phase in phases]
    settings = f"learning rate {LEARNING_RATE}, iteration {len(history['loss'])}"
    for index, (cost, seconds) in enumerate(zip(history["loss"], history["seconds"], strict=True)):
        for column, words in zip(columns, phases.values(), strict=True):
            yield "\t" + words.format(history[column][index])
        yield f"Iteration {index + 1} ({settings}), cost: {cost}, time: {seconds}"


def show_phases(runs: dict[str, Training]) -> None:
    """Where the time of each run went, on average over its ranks."""
    found = {name: run.result["phases"]["seconds"] for name, run in runs.items()}
    names = dict.fromkeys(name for one in found.values() for name in one)
    rows = [
        (
            name.replace("gather layer ", "gather theta"),
            *(f"{1000 * mean(one.get(name, [0])):.1f} ms" for one in found.values()),
        )
        for name in names
    ]
    show("Phases of a run", ("phase", *runs), rows)


def conclude(runs: dict[str, Training]) -> None:
    """Sequential against parallel: the time of all iterations, and how much shorter it became."""
    times = {name: sum(run.history["seconds"]) for name, run in runs.items()}
    rows = [
        (
            name,
            str(run.result["ranks"]),
            str(run.history["loss"][-1]),
            str(run.accuracy),
            f"{times[name]:.3f} s",
            f"{times[SEQUENTIAL] / times[name]:.2f}" if SEQUENTIAL in times else "",
        )
        for name, run in runs.items()
    ]
    columns = ("strategy", "ranks", "last cost", "precision", "time", "speed-up")
    show("400-25-10, sequential and parallel", columns, rows)


if __name__ == "__main__":
    main()
