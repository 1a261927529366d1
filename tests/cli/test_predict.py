"""`phalanx predict` on samples of a user's own, from end to end."""

import csv
import json
import random
from pathlib import Path

import numpy as np
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
    for suffix in (".parquet", ".npz"):
        for ranks in (1, 2):
            output = ("--top", 1, "--output", f"{ranks}{suffix}")
            on_ranks("predict", "run", "--ranks", ranks, *output, alone=ranks == 1)
        one, two = ((shared_path / f"{ranks}{suffix}").read_bytes() for ranks in (1, 2))
        assert one == two
    rows = rows_of(shared_path / "1.csv")
    assert list(rows[0]) == ["index", "file", "class", "blue", "red"]
    assert [row["file"] for row in rows] == [f"{index}.jpg" for index in range(5)]
    assert [row["class"] for row in rows] == ["blue", "red", "blue", "red", "blue"]
    on_ranks("predict", "run", "--output", "test.csv", alone=True)
    rows = rows_of(shared_path / "test.csv")
    assert list(rows[0]) == ["index", "file", "class", "label", "blue", "red"]
    assert [row["label"] for row in rows] == [Path(row["file"]).parts[0] for row in rows]
    assert {row["file"] for row in rows} <= {
        f"{row['label']}/{n}.png" for row in rows for n in range(6)
    }


def train_on_table(phalanx: Phalanx, tmp_path: Path) -> None:
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


def test_rows_keep_what_is_known_about_them(phalanx: Phalanx, tmp_path: Path) -> None:
    train_on_table(phalanx, tmp_path)
    (tmp_path / "new.csv").write_text(
        "who,number,kind,answer\nann,0.5,cold,no\nbob,0.25,warm,\nzoë,,warm,yes\n",
        encoding="cp1252",
    )
    ask = ("predict", "run", "--input", "new.csv", "--id", "who", "--output", "answers.csv")
    assert "--encoding" in phalanx(*ask).stderr
    assert "--skip-bad" in phalanx(*ask, "--encoding", "cp1252").stderr
    done = phalanx(*ask, "--encoding", "cp1252", "--skip-bad")
    assert done.returncode == 0, done.stderr
    assert "left out: 1 row of 3, the first: new.csv: line 4, column 'number'" in done.stderr
    rows = rows_of(tmp_path / "answers.csv")
    assert list(rows[0]) == ["index", "who", "class", "label", "no", "yes"]
    assert [row["who"] for row in rows] == ["ann", "bob", "zoë"]
    assert [row["class"] for row in rows] == ["no", "yes", ""]
    assert [row["label"] for row in rows] == ["no", "", "yes"]
    (tmp_path / "other.csv").write_text("kind,answer,number\ncold,no,1\nwarm,yes,\n", "utf-16")
    for command in ("predict", "evaluate"):
        other = (command, "run", "--data-dir", "other.csv")
        assert "--skip-bad" in phalanx(*other).stderr
        done = phalanx(*other, "--skip-bad", "--encoding", "utf-16")
        assert done.returncode == 0, done.stderr
        assert "left out: 1 row of 2" in done.stderr
    assert "csv: 1 samples, all of other.csv" in done.stdout
    wrong = phalanx("evaluate", "run", "--encoding", "utf-9")
    assert "--encoding utf-9: there is no such encoding" in wrong.stderr


def test_a_table_with_categories(phalanx: Phalanx, tmp_path: Path) -> None:
    train_on_table(phalanx, tmp_path)
    (tmp_path / "new.csv").write_text("number,kind\n0.5,cold\n0.25,warm\n")
    done = phalanx("predict", "run", "--input", "new.csv", "--output", "answers.csv")
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path / "answers.csv")
    assert [row["class"] for row in rows] == ["no", "yes"]
    assert float(rows[0]["yes"]) < 0.5 < float(rows[0]["no"])
    for flags, cause in (
        (("--output", "answers.txt"), "written as .csv, .parquet or .npz"),
        (("--top", 3), "--top 3: the model knows 2 classes: take 1 to 2"),
        (("--input", "new.csv", "--id", "kind", "--top", 0), "--top 0: the model knows 2 classes"),
    ):
        refused = phalanx("predict", "run", *flags)
        assert refused.returncode == 2
        assert cause in refused.stderr
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
        *("--normalise", "--epochs", 1, "--loss", "squared-error", "--missing", "mean"),
    )
    assert trained.returncode == 0, trained.stderr
    (tmp_path / "new.csv").write_text("number,kind\n0.5,cold\n2,warm\n1,mild\n")
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
        assert done.stdout.count("\n") == 4
        assert done.stderr.count("1 row of 3 with values that the training's rows do not have") == 1
    refused = phalanx(*ask, "--data-dir", "elsewhere")
    assert refused.returncode == 2
    assert "--input needs no data set: leave out --data-dir" in refused.stderr
    fill = json.loads((tmp_path / "run" / "result.json").read_text())["inputs"]["table"]
    number = next(one["fill"] for one in fill["columns"] if one["name"] == "number")
    asked = []
    for cell in ("?", number):
        (tmp_path / "new.csv").write_text(f"number,kind\n{cell},cold\n")
        asked.append(phalanx(*ask).stdout)
    assert asked[0] == asked[1] != ""
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
        *("--epochs", 1, "--output", "run"),
    )
    assert trained.returncode == 0, trained.stderr
    (tmp_path / "new").mkdir()
    for index in range(3):
        Image.new("RGB", (20, 10), (200, 30, 30)).save(tmp_path / "new" / f"{index}.png")
    (tmp_path / "new" / "1.png").write_bytes(b"no image")
    refused = phalanx("predict", "run", "--input", "new")
    assert refused.returncode == 2
    assert "1.png: not an image that can be read" in refused.stderr
    assert "leave out all such files by --skip-bad" in refused.stderr
    for ranks in (1, 2):
        done = phalanx("predict", "run", "--input", "new", "--skip-bad", "--ranks", ranks)
        assert done.returncode == 0, done.stderr
        assert "left out: " in done.stderr
        assert "1.png: not an image" in done.stderr
        rows = list(csv.DictReader(done.stdout.splitlines()))
        assert [row["file"] for row in rows] == ["0.png", "1.png", "2.png"]
        assert [rows[1][name] for name in ("class", "blue", "red")] == ["", "", ""]
        assert rows[0]["class"] == rows[2]["class"] != ""


def test_labels_from_one_keep_their_names(phalanx: Phalanx, tmp_path: Path) -> None:
    labels = np.tile([1, 2, 3], 20)
    inputs = np.eye(3, dtype=np.float32)[labels - 1]
    np.savez(tmp_path / "set.npz", X=inputs, y=labels)
    train = ("train", "--dataset", "npz", "--data-dir", "set.npz", "--epochs", 30)
    trained = phalanx(*train, "--output", "run", "--learning-rate", 0.5)
    assert trained.returncode == 0, trained.stderr
    assert trained.stderr == ""
    np.savez(tmp_path / "new.npz", x=np.eye(3))
    done = phalanx("predict", "run", "--input", "new.npz")
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert list(rows[0]) == ["index", "class", "1", "2", "3"]
    assert [row["class"] for row in rows] == ["1", "2", "3"]
    np.savez(tmp_path / "other.npz", X=np.eye(3)[[2, 2, 0]], y=np.array([3, 3, 1]))
    evaluated = phalanx("evaluate", "run", "--data-dir", "other.npz")
    assert "accuracy 100.00%" in evaluated.stdout, evaluated.stderr
    np.savez(tmp_path / "set.npz", X=inputs, y=np.full(60, 2))
    alone = phalanx(*train)
    assert alone.returncode == 2
    assert "all 48 training samples are of one class, 2" in alone.stderr
    assert not (tmp_path / "runs").exists()
    np.savez(tmp_path / "set.npz", X=inputs[:5], y=np.arange(5))
    odd = phalanx(*train, "--epochs", 1)
    assert odd.returncode == 0, odd.stderr
    assert "test samples of classes without a training sample" in odd.stderr
    assert "classes with one training sample" in odd.stderr
