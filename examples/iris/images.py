"""The network of .imgenv on a folder of images, and one that learns what they show.

    python -m examples.iris.images FOLDER

FOLDER has seg_train/ and seg_test/, or train/ and test/, with a folder of images for each class.
Three sigmoid layers see pixels without their neighbours; a small residual network sees shapes.
"""

import argparse
from pathlib import Path

from examples.commands import Training, show, train

CONFIG = Path(__file__).with_name(".imgenv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, default=Path("images-example"), help="a new folder")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--size", default="48x48", help="of the images for the residual network")
    arguments = parser.parse_args()
    common: list[object] = ["--dataset", "images", "--data-dir", arguments.folder]
    common += ["--ranks", arguments.ranks, "--epochs", arguments.epochs]
    runs = {
        "three sigmoid layers": train(
            ["--config", CONFIG, *common, *as_the_other()], output=arguments.output / "three-layers"
        ),
        "residual network": train(
            [*common, *residual_network(arguments.size)], output=arguments.output / "resnet20"
        ),
    }
    conclude(runs)


def as_the_other() -> list[object]:
    """Flags that have the network of the file trained as the other one is."""
    return ["--strategy", "central", "--validation-split", 0]


def residual_network(size: str) -> list[object]:
    """Flags for a network that learns photographs from a few hundred of them."""
    return [
        *("--resize", size, "--normalise", "--flip", "--model", "resnet20", "--batch-size", 32),
        *("--optimizer", "adam", "--learning-rate", 0.002, "--schedule", "cosine"),
    ]


def conclude(runs: dict[str, Training]) -> None:
    rows = [
        (
            name,
            str(run.result["ranks"]),
            f"{run.history['accuracy'][-1]:.2%}",
            f"{run.accuracy:.2%}",
            f"{run.seconds:.1f} s",
        )
        for name, run in runs.items()
    ]
    show("Images", ("", "ranks", "training accuracy", "test accuracy", "time"), rows)


if __name__ == "__main__":
    main()
