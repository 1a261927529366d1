"""`phalanx predict` on samples of a user's own, from end to end."""

import csv
import json
import random
from pathlib import Path

import pytest
from PIL import Image

from phalanx.comm.base import Communicator
from tests.commands import Phalanx
from tests.job_commands import OnRanks


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def make_images(folder: Path) -> None:
    """Those of two classes to train with, and new ones."""
    for name, colour in (("blue", (10, 20, 220)), ("red", (220, 20, 10))):
        for index in range(6):
            path = folder / "training" / name / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (9 + index, 9), colour).save(path)
    (folder / "new").mkdir()
    for index in range(5):
        colour = (200, 30, 30) if index % 2 else (30, 30, 200)
        Image.new("RGB", (20, 10), colour).save(folder / "new" / f"{index}.jpg")


@pytest.mark.ranks(2)
def test_a_folder_of_images(on_ranks: OnRanks, comm: Communicator, shared_path: Path) -> None:
    if comm.rank == 0:
        make_images(shared_path)
    trained = on_ranks(
        *("train", "--dataset", "images", "--data-dir", "training", "--resize", "8x8"),
        *("--epochs", 20, "--metrics", "confusion", "--normalise", "--output", "run"),
        alone=True,
    )
    assert "Confusion" in trained.stdout
    assert "recall" in trained.stdout
    test = json.loads((shared_path / "run" / "result.json").read_text())["test"]
    assert sum(map(sum, test["confusion"])) == test["count"]
    for ranks in (1, 2):
        ask = ("predict", "run", "--input", "new", "--ranks", ranks, "--output", f"{ranks}.csv")
        assert on_ranks(*ask, alone=ranks == 1).stdout == f"5 predictions: {ranks}.csv\n"
    assert (shared_path / "1.csv").read_bytes() == (shared_path / "2.csv").read_bytes()
    rows = rows_of(shared_path / "1.csv")
    assert list(rows[0]) == ["index", "file", "class", "blue", "red"]
    assert [row["file"] for row in rows] == [f"{index}.jpg" for index in range(5)]
    assert [row["class"] for row in rows] == ["blue", "red", "blue", "red", "blue"]


def test_a_table_with_categories(phalanx: Phalanx, tmp_path: Path) -> None:
    source = random.Random(1)
    lines = [
        f"{kind},{source.random():.3f},{'yes' if kind == 'warm' else 'no'}"
        for kind in ("warm", "cold") * 40
    ]
    (tmp_path / "training.csv").write_text("\n".join(["kind,number,answer", *lines]) + "\n")
    trained = phalanx(
        *("train", "--dataset", "csv", "--data-dir", "training.csv", "--output", "run"),
        *("--loss", "binary-cross-entropy", "--epochs", 20),
    )
    assert trained.returncode == 0, trained.stderr
    (tmp_path / "new.csv").write_text("number,kind\n0.5,cold\n0.25,warm\n")
    done = phalanx("predict", "run", "--input", "new.csv", "--output", "answers.csv")
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path / "answers.csv")
    assert [row["class"] for row in rows] == ["no", "yes"]
    assert float(rows[0]["yes"]) < 0.5 < float(rows[0]["no"])
    nowhere = phalanx("predict", "run", "--input", "new.csv", "--output", "nowhere/answers.csv")
    assert nowhere.returncode == 2
    assert "nowhere/answers.csv: name a file in a folder that exists" in nowhere.stderr
    evaluated = phalanx("evaluate", "run", "--output", "metrics.json")
    assert evaluated.returncode == 0, evaluated.stderr
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["classes"] == ["no", "yes"]
    assert sum(map(sum, metrics["confusion"])) == metrics["count"] == 16
    (tmp_path / "training.csv").write_text(
        (tmp_path / "training.csv").read_text().replace("yes", "perhaps")
    )
    for command in ("predict", "evaluate"):
        renamed = phalanx(command, "run")
        assert renamed.returncode == 2
        assert "'perhaps' is no class of the training's rows; those have no, yes" in renamed.stderr
    missing = phalanx("predict", "run", "--input", "missing.csv")
    assert missing.returncode == 2
    assert "missing.csv does not exist" in missing.stderr


def test_samples_of_ones_own_need_nothing_of_the_training(phalanx: Phalanx, tmp_path: Path) -> None:
    table = tmp_path / "training.csv"
    table.write_text("kind,number,answer\n" + "warm,1,yes\ncold,3,no\nwarm,2,yes\n" * 10)
    trained = phalanx(
        *("train", "--dataset", "csv", "--data-dir", "training.csv", "--output", "run"),
        *("--normalise", "--epochs", 1, "--loss", "squared-error"),
    )
    assert trained.returncode == 0, trained.stderr
    (tmp_path / "new.csv").write_text("number,kind\n0.5,cold\n2,warm\n")
    ask = ("predict", "run", "--input", "new.csv")
    before = phalanx(*ask)
    assert before.returncode == 0, before.stderr
    for row in csv.DictReader(before.stdout.splitlines()):
        assert abs(float(row["no"]) + float(row["yes"]) - 1) < 1e-5
    table.write_text(table.read_text() + "cold,1000,no\n" * 10)
    assert phalanx(*ask).stdout == before.stdout
    table.unlink()
    for ranks in (1, 2):
        done = phalanx(*ask, "--ranks", ranks)
        assert done.stdout == before.stdout, done.stderr
    refused = phalanx(*ask, "--data-dir", "elsewhere")
    assert refused.returncode == 2
    assert "--input needs no data set: leave out --data-dir" in refused.stderr
    (tmp_path / "new.csv").write_text("number,kind\n1,mild\n")
    unknown = phalanx(*ask)
    assert unknown.returncode == 2
    assert "'mild' is no value of the training's rows; those have cold, warm" in unknown.stderr
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    for name in ("shape", "table"):
        del result["inputs"][name]
    (tmp_path / "run" / "result.json").write_text(json.dumps(result))
    older = phalanx(*ask)
    assert older.returncode == 2
    assert "does not say what samples its model takes" in older.stderr


def test_images_that_cannot_be_read_have_no_answer(phalanx: Phalanx, tmp_path: Path) -> None:
    for name, colour in (("blue", (10, 20, 220)), ("red", (220, 20, 10))):
        for index in range(4):
            path = tmp_path / "training" / name / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (9, 9), colour).save(path)
    trained = phalanx(
        *("train", "--dataset", "images", "--data-dir", "training", "--resize", "8x8"),
        *("--epochs", 1, "--skip-bad", "--output", "run"),
    )
    assert trained.returncode == 0, trained.stderr
    (tmp_path / "new").mkdir()
    for index in range(3):
        Image.new("RGB", (20, 10), (200, 30, 30)).save(tmp_path / "new" / f"{index}.png")
    (tmp_path / "new" / "1.png").write_bytes(b"no image")
    for ranks in (1, 2):
        done = phalanx("predict", "run", "--input", "new", "--ranks", ranks)
        assert done.returncode == 0, done.stderr
        assert "left out: " in done.stderr
        assert "1.png: not an image" in done.stderr
        rows = list(csv.DictReader(done.stdout.splitlines()))
        assert [row["file"] for row in rows] == ["0.png", "1.png", "2.png"]
        assert [rows[1][name] for name in ("class", "blue", "red")] == ["", "", ""]
        assert rows[0]["class"] == rows[2]["class"] != ""
