"""Tasks from end to end, and the commands of docs/tasks.md."""

import csv
import json
import random
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import phalanx as phalanx_package
from tests.commands import Phalanx

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text()
COMMANDS = re.findall(r"^    phalanx (.*)$", PAGE, re.MULTILINE)


@pytest.fixture(autouse=True)
def tables(tmp_path: Path) -> None:
    draw = random.Random(1)
    houses, films = ["size,town,price,rent"], ["a,b,c,genres"]
    for _ in range(300):
        size, town = draw.uniform(30, 200), draw.choice("ab")
        price = 3000 * size + 90_000 * (town == "a") + draw.gauss(0, 9000)
        houses.append(f"{size:.1f},{town},{price:.2f},{price / 300 + draw.gauss(0, 20):.2f}")
        liked = [draw.gauss(0, 1) for _ in range(3)]
        genres = [
            name for name, one in zip(("action", "comedy", "drama"), liked, strict=True) if one > 0
        ]
        films.append(f"{','.join(f'{one:.3f}' for one in liked)},{'|'.join(genres)}")
    (tmp_path / "houses.csv").write_text("\n".join(houses) + "\n")
    (tmp_path / "films.csv").write_text("\n".join(films) + "\n")


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def result_of(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "result.json").read_text())
    return found


@pytest.mark.long
def test_the_page_can_be_typed(phalanx: Phalanx, tmp_path: Path) -> None:
    assert len(COMMANDS) > 7
    said = {}
    for command in COMMANDS:
        done = phalanx(*shlex.split(command))
        assert done.returncode == 0, (command, done.stderr)
        said[command] = done.stdout
    first = said[COMMANDS[0]]
    assert "task: regression, since the targets are numbers" in first
    assert re.search(r"^test: loss \S+  r2 0.\d+  mae \d+\S*  rmse \d+", first, re.MULTILINE)
    assert re.search(
        r"^baselines: mean of the targets r2 -?0.\d+.*; linear model r2 0.9", first, re.M
    )
    prices, genres = read(tmp_path / "prices.csv"), read(tmp_path / "genres.csv")
    assert list(prices[0]) == ["index", "price", "label"]
    errors = [abs(float(one["label"]) - float(one["price"])) for one in prices]
    assert sum(errors) / len(errors) < 60_000  # where prices deviate by 150,000
    assert list(genres[0]) == ["index", "labels", "label", "action", "comedy", "drama"]
    assert sum(one["labels"] == one["label"] for one in genres) > len(genres) / 2
    result = result_of(tmp_path / "runs" / "price")
    assert (result["task"], result["classes"], result["epochs"]) == ("regression", ["price"], 40)
    assert 100_000 < result["targets"]["deviation"][0] < 200_000
    history = read(tmp_path / "runs" / "price" / "history.csv")
    assert len(history) == 40
    assert float(history[-1]["r2"]) > float(history[0]["r2"])
    assert "R²" in said[COMMANDS[-1]]
    assert "not a fair comparison: task: regression (runs/price); multi-label" in said[COMMANDS[-1]]


def test_several_targets(phalanx: Phalanx, tmp_path: Path) -> None:
    """Under two ranks, in which case a metric of a rank's own is not that of all."""
    done = phalanx(
        *("train", "--dataset", "csv", "--data-dir", "houses.csv", "--target", "price,rent"),
        *("--ranks", 2, "--output", "run", "--validation-split", 0.2),
    )
    assert done.returncode == 0, done.stderr
    test = result_of(tmp_path / "run")["test"]
    assert set(test["by_output"]) == {"r2", "mae", "rmse"}
    assert test["by_output"]["mae"][0] > 100 * test["by_output"]["mae"][1]
    assert {"validation_rmse", "rmse"} <= set(read(tmp_path / "run" / "history.csv")[0])
    evaluated = phalanx("evaluate", "run", "--output", "again.json")
    assert evaluated.returncode == 0, evaluated.stderr
    again = json.loads((tmp_path / "again.json").read_text())
    assert again["more"] == pytest.approx(test["more"])
    assert again["task"] == "regression"
    (tmp_path / "new.csv").write_text("town,size\na,100\nb,50\n")
    answers = phalanx("predict", "run", "--input", "new.csv").stdout.splitlines()
    assert answers[0] == "index,price,rent"
    assert 250_000 < float(answers[1].split(",")[1]) < 500_000
    (tmp_path / "full.csv").write_text("size,town,price,rent\n100,a,390000,1300\n")
    answers = phalanx("predict", "run", "--input", "full.csv").stdout.splitlines()
    assert answers[0] == "index,price,rent,label price,label rent"
    assert answers[1].endswith(",390000,1300")
    refused = phalanx("predict", "run", "--top", 2)
    assert refused.returncode == 2
    assert "--top 2 is for models that tell classes apart, not for regression" in refused.stderr


def test_a_data_set_of_ones_own(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import phalanx, torch\n"
        "def make() -> phalanx.Dataset:\n"
        "    inputs = torch.randn(200, 3, generator=torch.Generator().manual_seed(1))\n"
        "    split = phalanx.Split(inputs, inputs.sum(1) * 7 + 40)\n"
        "    return phalanx.Dataset('own', split, split, ())\n"
    )
    own = ("--dataset", "own.py:make")
    done = phalanx("train", *own, "--output", "run", "--stop-at", "r2=0.5", "--epochs", 40)
    assert done.returncode == 0, done.stderr
    assert "stopped after epoch" in done.stdout
    assert result_of(tmp_path / "run")["test"]["more"]["r2"] > 0.5
    answers = phalanx("predict", "run", *own).stdout.splitlines()
    assert answers[0] == "index,value,label"
    refused = phalanx("train", *own, "--metrics", "top-5")
    assert refused.returncode == 2
    assert "--metrics top-5 is not for regression" in refused.stderr
    alone = phalanx("evaluate", "--weights", "run/model.safetensors", *own)
    assert alone.returncode == 2
    assert "weights alone do not say what the targets" in alone.stderr


def test_arrays(phalanx: Phalanx, tmp_path: Path) -> None:
    import numpy as np

    inputs = np.random.default_rng(1).normal(size=(200, 4)).astype("f4")
    np.savez(tmp_path / "values.npz", X=inputs, y=inputs[:, :2] * 30)
    np.savez(tmp_path / "labels.npz", X=inputs, y=(inputs[:, :3] > 0))
    for name, task in (("values", "regression"), ("labels", "multi-label")):
        given = ("--dataset", "npz", "--data-dir", f"{name}.npz")
        done = phalanx("train", *given, "--output", name)
        assert done.returncode == 0, done.stderr
        assert f"task: {task}, since" in done.stdout
        answers = phalanx("predict", name, "--input", f"{name}.npz")
        assert answers.stderr == ""
        header, first, *_ = answers.stdout.splitlines()
        assert len(first.split(",")) == len(header.split(","))
        assert header.startswith(
            "index,value 0,value 1,label value 0" if name == "values" else "index,labels,label"
        )
        model = phalanx_package.load(tmp_path / name)
        said = phalanx("predict", name, "--input", f"{name}.npz", "--output", "answers.npz")
        assert said.returncode == 0, said.stderr
        with np.load(tmp_path / "answers.npz") as found:
            np.testing.assert_array_equal(found["outputs"], model(inputs).numpy())
            told = found["answer"].tolist()
        if name == "values":
            assert model.predict(inputs) == told
        else:
            names = [
                [name for name, one in zip(model.classes, row, strict=True) if one] for row in told
            ]
            assert model.predict(inputs) == names
            assert model.probabilities(inputs).shape == (200, 3)
