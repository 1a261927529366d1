"""The network of an .irisenv, trained alone, collectively and by send and receive.

    python -m examples.iris.run [--config FILE]
    python -m examples.iris.run [--config FILE] --by-ranks 4

Beside it stand a network in NumPy, one in plain torch and a logistic regression. The second command
has the time that both ways of several ranks take by the number of ranks instead. Curves go to PNG
files, which needs the extra `plots`.
"""

import argparse
from pathlib import Path
from typing import Any

from examples.commands import Training, show, train
from examples.iris.baselines import Baseline, logistic_regression, numpy_network, plain_torch
from examples.iris.plots import plot, plot_times
from phalanx.compat.three_layers import read_three_layers

CONFIG = Path(__file__).with_name(".irisenv")
#: What the program that these files come from calls its modes, and the strategies that they are.
MODES = {"single": "single", "collective": "allreduce", "send/receive": "server"}
#: The ranks of a file that does not say how many: it has no `parallelism`.
RANKS = 4
COLUMNS = ("", "ranks", "samples a step", "test accuracy", "time")


def main() -> None:
    arguments = parse_arguments()
    output: Path = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    if arguments.by_ranks is not None:
        by_ranks(arguments, output)
        return
    runs = {
        mode: train(
            flags(strategy, arguments, ranks=ranks_of(strategy, arguments)),
            output=output / strategy,
        )
        for mode, strategy in MODES.items()
    }
    baselines = train_baselines(arguments)
    print()
    plot_all(runs, baselines, output)
    conclude(runs, baselines, config=arguments.config)


def by_ranks(arguments: argparse.Namespace, output: Path) -> None:
    """Train on 1 rank to as many as asked for; a main network needs another rank to train."""
    runs: dict[str, dict[int, Training]] = {}
    for mode, strategy in MODES.items():
        most = 1 if strategy == "single" else arguments.by_ranks
        runs[mode] = {
            ranks: train(
                flags(strategy, arguments, ranks=ranks), output=output / f"{strategy}-{ranks}"
            )
            for ranks in range(2 if strategy == "server" else 1, most + 1)
        }
    print()
    times = {
        mode: {ranks: run.seconds for ranks, run in found.items()} for mode, found in runs.items()
    }
    plot_times(output / "time-by-ranks.png", title="time by ranks", times=times)
    rows = [
        (
            mode,
            str(ranks),
            batch_of(run, arguments.config),
            f"{run.accuracy:.2%}",
            f"{run.seconds:.2f} s",
        )
        for mode, found in runs.items()
        for ranks, run in found.items()
    ]
    show(f"{arguments.config.name}: time by ranks", COLUMNS, rows)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--config", type=Path, default=CONFIG, help="an .irisenv of your own")
    parser.add_argument("--output", type=Path, default=Path("iris-example"), help="a new folder")
    parser.add_argument("--epochs", type=int, help="instead of those in the file")
    parser.add_argument(
        "--ranks", type=int, help=f"instead of those in the file, or {RANKS} if it has none"
    )
    parser.add_argument("--by-ranks", type=int, metavar="N", help="time on 1 to N ranks")
    return parser.parse_args()


def settings_of(config: Path, *, strategy: str) -> dict[str, Any]:
    """What the file stands for under a strategy."""
    settings = read_three_layers(config, {"strategy": strategy}, launched=None)
    if settings is None or settings["dataset"] != "iris":
        raise SystemExit(
            f"--config {config}: is no configuration of a three-layer network for iris"
        )
    return settings


def ranks_of(strategy: str, arguments: argparse.Namespace) -> int:
    if strategy == "single":
        return 1
    in_file = settings_of(arguments.config, strategy=strategy).get("ranks", RANKS)
    return int(in_file if arguments.ranks is None else arguments.ranks)


def flags(strategy: str, arguments: argparse.Namespace, *, ranks: int) -> list[object]:
    """Everything is in the file; flags win."""
    given: list[object] = ["--config", arguments.config, "--strategy", strategy, "--ranks", ranks]
    if arguments.epochs is not None:
        given += ["--epochs", arguments.epochs]
    return given


def train_baselines(arguments: argparse.Namespace) -> dict[str, Baseline]:
    """All three, with the sizes and rates of the file, and steps as the single network's."""
    settings = settings_of(arguments.config, strategy="single")
    choices = {
        "epochs": settings["epochs"] if arguments.epochs is None else arguments.epochs,
        "batch_size": settings["batch_size"],
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
    """Every network's own, and that of the samples to validate with, which all have in common."""
    networks = run.networks or {0: run.history}
    own = {f"network {rank}": columns[name] for rank, columns in networks.items()}
    return own | {"validation": run.history[f"validation_{name}"]}


def conclude(runs: dict[str, Training], baselines: dict[str, Baseline], *, config: Path) -> None:
    rows = [
        (
            mode,
            str(run.result["ranks"]),
            batch_of(run, config),
            f"{run.accuracy:.2%}",
            f"{run.seconds:.2f} s",
        )
        for mode, run in runs.items()
    ]
    rows += [
        (name, "1", str(one.batch_size), f"{one.accuracy:.2%}", f"{one.seconds:.2f} s")
        for name, one in baselines.items()
    ]
    show(f"{config.name}: 120 flowers to train, 15 to validate, 15 to test", COLUMNS, rows)


def batch_of(run: Training, config: Path) -> str:
    """The samples of a step: those of each network that trains, or one."""
    settings = settings_of(config, strategy=run.result["strategy"])
    alone = settings.get("batch_size")
    return str(alone or settings["batch_size_per_rank"] * run.result["training_ranks"])


if __name__ == "__main__":
    main()
