"""Data of a user's own through the command line, on one rank and on two."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from phalanx.comm.base import Communicator
from tests.commands import Phalanx
from tests.job_commands import OnRanks

Image = pytest.importorskip("PIL.Image")


def make_pictures(folder: Path) -> None:
    drawn = np.random.default_rng(0)
    for name in ("dark", "light"):
        (folder / name).mkdir(parents=True)
        for number in range(12):
            pixels = drawn.integers(0, 128, (9, 11, 3)) + 127 * (name == "light")
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number}.png")
    (folder / "dark" / "3.png").write_bytes(b"damaged")


@pytest.mark.ranks(1, 2)
def test_random_steps_give_the_same_weights_on_any_number_of_ranks(
    on_ranks: OnRanks, comm: Communicator, ranks: int, shared_path: Path
) -> None:
    if comm.rank == 0:
        make_pictures(shared_path / "pictures")
    comm.barrier()
    digests = set()
    for alone in (True, False):
        run = shared_path / f"run-{alone}"
        done = on_ranks(
            *("train", "--dataset", "images", "--data-dir", "pictures", "--resize", "6x6"),
            *("--skip-bad", "--normalise", "--flip", "--crop", 1, "--test-as-validation"),
            *("--epochs", 2, "--batch-size", 6, "--shards", 2, "--output", run),
            *("--ranks", 1 if alone else ranks),
            alone=alone,
        )
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
