"""`phalanx predict` on samples of a user's own, from end to end."""

import csv
import json
import random
from pathlib import Path

from PIL import Image

from tests.cli.conftest import Phalanx


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_a_folder_of_images(phalanx: Phalanx, tmp_path: Path) -> None:
    for name, colour in (("blue", (10, 20, 220)), ("red", (220, 20, 10))):
        for index in range(6):
            path = tmp_path / "training" / name / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (9 + index, 9), colour).save(path)
    trained = phalanx(
        *("train", "--dataset", "images", "--data-dir", "training", "--resize", "8x8"),
        *("--epochs", 20, "--metrics", "confusion", "--normalise", "--output", "run"),
    )
    assert trained.returncode == 0, trained.stderr
    assert "Confusion" in trained.stdout
    assert "recall" in trained.stdout
    test = json.loads((tmp_path / "run" / "result.json").read_text())["test"]
    assert sum(map(sum, test["confusion"])) == test["count"]
    (tmp_path / "new").mkdir()
    for index in range(5):
        colour = (200, 30, 30) if index % 2 else (30, 30, 200)
        Image.new("RGB", (20, 10), colour).save(tmp_path / "new" / f"{index}.jpg")
    for ranks in (1, 2):
        done = phalanx(
            *("predict", "run", "--input", "new", "--ranks", ranks, "--output", f"{ranks}.csv")
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"5 predictions: {ranks}.csv\n"
    assert (tmp_path / "1.csv").read_bytes() == (tmp_path / "2.csv").read_bytes()
    rows = rows_of(tmp_path / "1.csv")
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
    renamed = phalanx("predict", "run", "--input", "new.csv")
    assert renamed.returncode == 2
    assert "was trained on the classes no, yes, and the data now has no, perhaps" in renamed.stderr
    missing = phalanx("predict", "run", "--input", "missing.csv")
    assert missing.returncode == 2
    assert "missing.csv does not exist" in missing.stderr
