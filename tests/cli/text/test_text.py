"""A text from end to end: trained, gone on with, evaluated, written on."""

import csv
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import typer

from phalanx.cli.app import app
from tests.cli.resume.interrupted_runs import history, interrupt, result
from tests.commands import Phalanx, environment
from tests.zygote import Zygote

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "text.md").read_text()
COMMANDS = re.findall(r"^    (phalanx .*)$", PAGE, re.MULTILINE)
SMALL = (
    *("--dataset", "text", "--data-dir", "some.txt", "--context-length", 16, "--blocks", 1),
    *("--attention-heads", 2, "--embedding-size", 16, "--epochs", 2, "--batch-size", 12),
)
#: A text that is known as soon as one knows which letter follows which.
TEXT = "to be or not " * 60


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, zygote: Zygote) -> Path:
    """A folder with a run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "some.txt").write_text(TEXT)
    flags = ("--shards", 2, "--checkpoint-every", 2, "--keep", 99, "--output", "run")
    arguments = ["train", *map(str, (*SMALL, *flags))]
    done = zygote.run("phalanx", arguments, cwd=folder, env=environment())
    assert done.returncode == 0, done.stderr
    assert "perplexity" in done.stdout
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(finished, tmp_path, dirs_exist_ok=True))


def test_what_a_run_says(folder: Path) -> None:
    told = result(folder / "run")
    assert told["classes"] == sorted(set(TEXT))
    assert told["input_shape"] == [16]
    assert set(told["test"]["more"]) == {"perplexity", "bits"}
    assert 0 < told["test"]["accuracy"] < 1
    for row in history(folder / "run"):
        assert float(row["perplexity"]) > 1
        assert float(row["bits"]) > 0


def test_it_goes_on_with_the_same_bits(phalanx: Phalanx, finished: Path, folder: Path) -> None:
    """Inside an epoch, on other ranks."""
    interrupt(folder / "run", after=4)
    done = phalanx("train", "--resume", "run", "--ranks", 2)
    assert done.returncode == 0, done.stderr
    ours, theirs = result(folder / "run"), result(finished / "run")
    assert ours["weights_sha256"] == theirs["weights_sha256"]
    assert ours["test"] == theirs["test"]


def test_evaluate_on_another_text(phalanx: Phalanx, folder: Path) -> None:
    done = phalanx("evaluate", "run", "--output", "own.json")
    assert done.returncode == 0, done.stderr
    own = json.loads((folder / "own.json").read_text())
    assert own["more"] == result(folder / "run")["test"]["more"]
    assert own["confusion"] is None
    # Of fewer characters: each has the number that it had in the training.
    (folder / "other.txt").write_text(TEXT.replace("b", "n"))
    done = phalanx("evaluate", "run", "--data-dir", "other.txt", "--output", "other.json")
    assert "samples, all of other.txt" in done.stdout
    assert json.loads((folder / "other.json").read_text())["count"] > own["count"]
    (folder / "other.txt").write_text(TEXT.replace("b", "ß"))
    done = phalanx("evaluate", "run", "--data-dir", "other.txt")
    assert (done.returncode, "holds 'ß', which the text" in done.stderr) == (2, True)


def test_predict_goes_on_with_a_prompt(phalanx: Phalanx, folder: Path) -> None:
    texts = [
        phalanx("predict", "run", "--prompt", "to b", "--length", 30, *more).stdout
        for more in ((), (), ("--temperature", 5, "--seed", 1), ("--temperature", 5, "--seed", 2))
    ]
    assert all(re.fullmatch("to b[be nort]{30}\n", text) for text in texts)
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3
    done = phalanx("predict", "run", "--prompt", "to b", "--length", 30, "--output", "text.txt")
    assert done.stdout == "34 characters: text.txt\n"
    assert (folder / "text.txt").read_text() + "\n" == texts[0]


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["predict", "run"], "is a model of text: give it one to go on with, --prompt"),
        (["predict", "run", "--prompt", "x"], "the prompt: holds 'x'"),
        (["predict", "run", "--prompt", "to", "--ranks", "2"], "leave out --ranks"),
        (["predict", "run", "--prompt", "to", "--input", "some.txt"], "leave out --input"),
        (["predict", "run", "--prompt", "to", "--seed", "1"], "give a --temperature above 0"),
        (["predict", "run", "--prompt", "to", "--length", "0"], "--length must be at least 1"),
        (["predict", "run", "--prompt", "to", "--temperature", "-1"], "--temperature must be 0"),
        (["export", "run"], "is a model of text, and export is for models of numbers"),
        (["train", "--resume", "run", "--context-length", "8"], "which cannot change on the way"),
    ],
)
def test_what_does_not_apply(
    phalanx: Phalanx, folder: Path, arguments: list[str], cause: str
) -> None:
    done = phalanx(*arguments)
    assert done.returncode == 2, done.stdout
    assert cause in done.stderr


def test_a_prompt_is_for_text(phalanx: Phalanx) -> None:
    done = phalanx("train", "--dataset", "iris", "--epochs", 1, "--output", "run")
    assert done.returncode == 0, done.stderr
    done = phalanx("predict", "run", "--prompt", "to")
    assert done.returncode == 2
    assert "--prompt is for models of text, and run was trained on iris" in done.stderr


@pytest.mark.long
def test_it_has_a_row_in_a_comparison(phalanx: Phalanx, folder: Path) -> None:
    done = phalanx("compare", *SMALL, "--strategies", "tensor", "--ranks", 2, "--csv", "table.csv")
    assert done.returncode == 0, done.stderr
    (row,) = csv.DictReader((folder / "table.csv").read_text().splitlines())
    assert (row["strategy"], row["status"]) == ("tensor", "done")
    assert 0 < float(row["test_accuracy"]) <= 1


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) > 8


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_parses(command: str) -> None:
    _, name, *arguments = shlex.split(command)
    group = typer.main.get_command(app)
    group.commands[name].make_context(name, arguments)  # type: ignore[attr-defined]


@pytest.mark.long
def test_the_page_from_its_beginning(phalanx: Phalanx, tmp_path: Path) -> None:
    """The first commands as they stand, but for the length of the training."""
    train, *others = COMMANDS[:4]
    _, *arguments = shlex.split(train)
    done = phalanx(*arguments, "--epochs", 1, "--steps-per-epoch", 30)
    assert done.returncode == 0, done.stderr
    loss = result(tmp_path / "runs" / "tales")["test"]["loss"]
    assert loss < 3.0  # a guess has 4.03
    for command in others:
        done = phalanx(*shlex.split(command)[1:])
        assert done.returncode == 0, done.stderr
        assert done.stdout
