"""The network of .irisenv, trained alone, collectively and by send and receive.

    python -m examples.iris.run

Beside it stand a network in NumPy, one in plain torch and a logistic regression. Curves go to PNG
files, which needs the extra `plots`.
"""

import argparse
from pathlib import Path

from examples.commands import Training, show, train
from examples.iris.baselines import Baseline, logistic_regression, numpy_network, plain_torch
from examples.iris.plots import plot
from phalanx.compat.three_layers import read_three_layers

CONFIG = Path(__file__).with_name(".irisenv")
#: What the program that these files come from calls its modes, and the strategies that they are.
MODES = {"single": "single", "collective": "allreduce", "send/receive": "server"}


def main() -> None:
    arguments = parse_arguments()
    output: Path = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    runs = {
        mode: train(flags(strategy, arguments), output=output / strategy)
        for mode, strategy in MODES.items()
    }
    baselines = train_baselines(arguments.epochs)
    print()
    plot_all(runs, baselines, output)
    conclude(runs, baselines)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--output", type=Path, default=Path("iris-example"), help="a new folder")
    parser.add_argument("--epochs", type=int, help="instead of those in .irisenv")
    parser.add_argument("--ranks", type=int, help="instead of those in .irisenv")
    return parser.parse_args()


def flags(strategy: str, arguments: argparse.Namespace) -> list[object]:
    """Everything is in the file; flags win."""
    given: list[object] = ["--config", CONFIG, "--strategy", strategy, "--test-as-validation"]
    if arguments.epochs is not None:
        given += ["--epochs", arguments.epochs]
    if arguments.ranks is not None and strategy != "single":
        given += ["--ranks", arguments.ranks]
    return given


def train_baselines(epochs: int | None) -> dict[str, Baseline]:
    """All three, with the sizes and rates of the file."""
    settings = read_three_layers(CONFIG, {}, launched=False)
    assert settings is not None
    choices = {
        "epochs": settings["epochs"] if epochs is None else epochs,
        "batch_size": settings["batch_size_per_rank"],
        "learning_rate": settings["learning_rate"],
    }
    return {
        "NumPy": numpy_network(settings["hidden"], **choices),
        "plain torch": plain_torch(settings["hidden"], **choices),
        "logistic regression": logistic_regression(**choices),
    }


def plot_all(runs: dict[str, Training], baselines: dict[str, Baseline], output: Path) -> None:
    for mode, run in runs.items():
        plot(
            output / f"{MODES[mode]}.png",
            title=mode,
            losses=curves(run, "loss"),
            accuracies=curves(run, "accuracy"),
        )
    # A logistic regression has another loss, which does not compare.
    networks = {name: one.losses for name, one in baselines.items() if "regression" not in name}
    plot(
        output / "comparison.png",
        title="all of them",
        losses={mode: run.history["loss"] for mode, run in runs.items()} | networks,
        accuracies={mode: run.history["validation_accuracy"] for mode, run in runs.items()}
        | {name: one.accuracies for name, one in baselines.items()},
    )


def curves(run: Training, name: str) -> dict[str, list[float]]:
    """Every network's own, and that of the samples to test with."""
    networks = run.networks or {0: run.history}
    own = {f"network {rank}": columns[name] for rank, columns in networks.items()}
    return own | {"test": run.history[f"validation_{name}"]}


def conclude(runs: dict[str, Training], baselines: dict[str, Baseline]) -> None:
    rows = [
        (mode, str(run.result["ranks"]), f"{run.accuracy:.2%}", f"{run.seconds:.2f} s")
        for mode, run in runs.items()
    ]
    rows += [
        (name, "1", f"{one.accuracy:.2%}", f"{one.seconds:.2f} s")
        for name, one in baselines.items()
    ]
    show("Iris: 120 flowers to train, 30 to test", ("", "ranks", "test accuracy", "time"), rows)


if __name__ == "__main__":
    main()
