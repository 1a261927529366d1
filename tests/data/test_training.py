"""Data of a user's own through the command line, on one rank and on two."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.commands import Phalanx

Image = pytest.importorskip("PIL.Image")


def test_random_steps_give_the_same_weights_on_any_number_of_ranks(
    phalanx: Phalanx, tmp_path: Path
) -> None:
    drawn = np.random.default_rng(0)
    for name in ("dark", "light"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(12):
            pixels = drawn.integers(0, 128, (9, 11, 3)) + 127 * (name == "light")
            path = tmp_path / "pictures" / name / f"{number}.png"
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    (tmp_path / "pictures" / "dark" / "3.png").write_bytes(b"damaged")
    digests = set()
    for ranks in (1, 2):
        run = tmp_path / f"run-{ranks}"
        done = phalanx(
            *("train", "--dataset", "images", "--data-dir", "pictures", "--resize", "6x6"),
            *("--skip-bad", "--normalise", "--flip", "--crop", 1, "--test-as-validation"),
            *("--epochs", 2, "--batch-size", 6, "--shards", 2, "--ranks", ranks, "--output", run),
        )
        assert done.returncode == 0, done.stderr
        assert "left out: pictures/dark/3.png: not an image" in done.stderr
        result = json.loads((run / "result.json").read_text())
        digests.add(result["weights_sha256"])
        with (run / "history.csv").open(newline="") as file:
            *_, last = csv.DictReader(file)
        assert float(last["validation_loss"]) == pytest.approx(result["test"]["loss"])
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (
            ("--dataset", "csv", "--data-dir", "some.csv"),
            "line 2, column 'x': the value is missing",
        ),
        (("--test-as-validation", "--validation-split", 0.2), "drop --validation-split"),
        (("--dataset", "iris", "--crop", 3), "--crop is for images"),
    ],
)
def test_data_that_cannot_work_is_refused_before_any_rank_starts(
    phalanx: Phalanx, tmp_path: Path, arguments: tuple[object, ...], cause: str
) -> None:
    (tmp_path / "some.csv").write_text("x,kind\n?,a\n1,b\n")
    done = phalanx("train", "--ranks", 2, *arguments)
    assert done.returncode == 2
    assert cause in " ".join(done.stderr.split())
    assert "rank" not in done.stderr
