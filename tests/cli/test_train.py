"""`phalanx train`, `evaluate` and `predict` from end to end."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from phalanx.comm.base import Communicator
from phalanx.comm.launch.mpiexec import mpiexec_command
from phalanx.comm.launch.process import available_cores
from tests.commands import Phalanx, left_behind
from tests.job_commands import OnRanks

SMALL = ("train", "--dataset", "digits", "--epochs", "2", "--hidden", "16", "--seed", "7")


def digest(output: str) -> str:
    found = re.search(r"^weights sha256: ([0-9a-f]{64})$", output, re.MULTILINE)
    assert found, output
    return found.group(1)


def test_a_run_and_what_it_leaves(phalanx: Phalanx, process: Phalanx, tmp_path: Path) -> None:
    done = process(*SMALL, "--validation-split", "0.2", "--evaluate-first", "--output", "my run")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "Linear" in done.stdout
    assert "16×64" in done.stdout
    assert re.search(r"epoch 2/2 .* samples/s .*loss .*accuracy .*validation loss", done.stdout)
    assert "test before: loss" in done.stdout
    run = tmp_path / "my run"
    config = json.loads((run / "config.json").read_text())
    assert config["settings"]["ranks"] == 1
    assert config["settings"]["hidden"] == [16]
    assert {"torch", "mpi4py", "phalanx"} <= set(config["versions"])
    assert config["host"]["cores"] >= 1
    rows = list(csv.DictReader((run / "history.csv").read_text().splitlines()))
    assert [row["epoch"] for row in rows] == ["1", "2"]
    assert 0 < float(rows[1]["validation_accuracy"]) <= 1
    assert sorted(path.name for path in run.iterdir()) == [
        "checkpoints",
        "config.json",
        "history.csv",
        "model.safetensors",
        "result.json",
    ]
    assert json.loads((run / "result.json").read_text())["weights_sha256"] == digest(done.stdout)
    again = phalanx(*SMALL, "--output", "my run")
    assert again.returncode == 2
    assert "is not empty" in again.stderr


def test_mpirun_equals_our_own_launcher(phalanx: Phalanx, process: Phalanx, tmp_path: Path) -> None:
    ours = phalanx(*SMALL, "--ranks", 2)
    assert ours.returncode == 0, ours.stderr
    command, environment = mpiexec_command(2)
    variables = {name: environment[name] for name in environment if name.startswith("OMPI_")}
    theirs = process(*SMALL, before=tuple(command[:3]), **variables)
    assert theirs.returncode == 0, theirs.stderr
    assert digest(ours.stdout) == digest(theirs.stdout)
    assert ours.stdout.count("weights sha256") == 1  # rank 0 alone writes
    assert "central on 2 ranks, 1 thread each" in ours.stdout
    assert left_behind(tmp_path) == []


@pytest.mark.long
def test_more_ranks_than_cores(phalanx: Phalanx) -> None:
    ranks = min(6, available_cores() + 1)
    done = phalanx(*SMALL, "--ranks", ranks, "--epochs", 1)
    assert done.returncode == 0, done.stderr
    assert f"on {ranks} ranks" in done.stdout


@pytest.mark.ranks(1, 3)
def test_predictions_are_the_same_bytes_on_any_number_of_ranks(
    on_ranks: OnRanks, comm: Communicator, ranks: int, shared_path: Path
) -> None:
    if comm.rank == 0:
        inputs = np.random.default_rng(1).integers(0, 17, (1000, 1, 8, 8), dtype=np.uint8)
        np.save(shared_path / "inputs.npy", inputs)
    on_ranks(*SMALL, "--model", "mlp", "--output", "run", alone=True)
    ask = ("predict", "run", "--input", "inputs.npy")
    on_ranks(*ask, "--output", "alone.csv", alone=True)
    on_ranks(*ask, "--ranks", ranks, "--output", "together.csv")
    assert (shared_path / "alone.csv").read_bytes() == (shared_path / "together.csv").read_bytes()
    rows = list(csv.DictReader((shared_path / "together.csv").read_text().splitlines()))
    assert [int(row["index"]) for row in rows] == list(range(1000))
    assert sum(float(rows[0][str(digit)]) for digit in range(10)) == pytest.approx(1, abs=1e-5)


@pytest.mark.ranks(2)
def test_test_samples_are_predicted_and_evaluated(on_ranks: OnRanks, shared_path: Path) -> None:
    on_ranks(*SMALL, "--model", "mlp", "--output", "run", alone=True)
    printed = on_ranks("predict", "run").stdout
    assert printed.startswith("index,class,label,0,1,")
    assert len(printed.splitlines()) == 360
    evaluated = on_ranks("evaluate", "run", "--ranks", 2)
    accuracy = json.loads((shared_path / "run" / "result.json").read_text())["test"]["accuracy"]
    assert f"accuracy {accuracy:.2%}" in evaluated.stdout


def test_settings_from_a_file_and_flags_win(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text(
        "\ufeff"  # as editors on Windows begin a file
        'dataset = "iris"\nhidden = [8]\nepochs = 3\nlearning-rate = 0.1\noutput = "run"\n'
    )
    done = phalanx("train", "--config", "settings.toml", "--epochs", 1)
    assert done.returncode == 0, done.stderr
    settings = json.loads((tmp_path / "run" / "config.json").read_text())["settings"]
    assert (settings["dataset"], settings["hidden"], settings["epochs"]) == ("iris", [8], 1)
    assert settings["learning_rate"] == 0.1
    again = phalanx("train", "--config", "run/config.json", "--output", "again")
    assert again.returncode == 0, again.stderr
    assert digest(again.stdout) == digest(done.stdout)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_quiet_training(phalanx: Phalanx, tmp_path: Path, ranks: int) -> None:
    quiet = ("--quiet", "--epochs", 1, "--output", "run", "--ranks", ranks, "--profile")
    done = phalanx("train", *quiet)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "run" / "result.json").exists()
    refused = phalanx("train", *quiet)
    assert refused.returncode == 2
    assert "run is not empty" in refused.stderr


def test_flags_as_people_type_them(phalanx: Phalanx, tmp_path: Path) -> None:
    typed = ("--lr", 0.1, "--batch_size=3", "-n", 1, "--steps_per_epoch", 2, "--epochs", 1)
    done = phalanx("train", *typed, "--dataset", "iris", "--output", "run")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "run" / "config.json").read_text())["settings"]
    names = ("learning_rate", "batch_size", "ranks", "steps_per_epoch")
    assert [found[name] for name in names] == [0.1, 3, 1, 2]
    unknown = phalanx("train", "--batch_sizes=3")
    assert unknown.returncode == 2
    assert "--batch-size" in unknown.stderr


def test_changes_are_sent_by_plain_sgd(phalanx: Phalanx, tmp_path: Path) -> None:
    """In processes that have loaded nothing of torch's compiler, which others may have."""
    changes = ("--strategy", "server", "--exchange", "changes", "--ranks", 2, "--optimizer", "sgd")
    done = phalanx("train", *changes, "--epochs", 1, "--dataset", "iris", "--output", "run")
    assert done.returncode == 0, done.stderr


def test_a_users_own_model_on_ranks(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "from torch import nn\n"
        "def make_model(classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))\n"
    )
    done = phalanx("train", "--model", "net.py:make_model", "--ranks", 2, "--epochs", 1)
    assert done.returncode == 0, done.stderr
    assert "650" in done.stdout
    assert (tmp_path / "runs" / "digits-net-1" / "model.safetensors").exists()


@pytest.mark.ranks(2)
@pytest.mark.parametrize(
    "how", [("--shards", 2, "--strategy", "allreduce"), ("--overlap",)], ids=["shards", "overlap"]
)
def test_how_a_run_was_trained_does_not_bind_its_evaluation(
    on_ranks: OnRanks, how: tuple[object, ...]
) -> None:
    on_ranks(*SMALL, *how, "--ranks", 2, "--output", "run")
    alone, together = (on_ranks("evaluate", "run", alone=one) for one in (True, False))
    assert alone.stdout.startswith("digits: 359 test samples  loss ")
    assert alone.stdout == together.stdout


def test_what_fails_after_the_training_does_not_lose_it(phalanx: Phalanx, tmp_path: Path) -> None:
    for part, name in (("train", "a"), ("train", "b"), ("test", "a"), ("test", "b")):
        path = tmp_path / "set" / part / name / "1.png"
        path.parent.mkdir(parents=True)
        Image.new("RGB", (8, 8), (200 if name == "a" else 20, 9, 9)).save(path)
    path.write_bytes(path.read_bytes()[:48])  # which begins as an image does
    done = phalanx(
        *("train", "--dataset", "images", "--data-dir", "set", "--resize", "8x8"),
        *("--epochs", 1, "--output", "run"),
    )
    assert done.returncode != 0
    assert "1.png" in done.stderr
    assert (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.ranks(2)
def test_a_profile_accounts_for_the_whole_time(on_ranks: OnRanks, shared_path: Path) -> None:
    done = on_ranks(
        *("train", "--ranks", 2, "--strategy", "allreduce", "--model", "simplecnn"),
        *("--epochs", 2, "--batch-size", 16, "--profile", "--output", "run"),
        *("--trace", "trace.json"),
    )
    assert re.search(r"^│ backward +│", done.stdout, re.MULTILINE)
    assert re.search(r"^│ 6 +│ Linear +│ +\d", done.stdout, re.MULTILINE)  # the times of a layer
    trace = json.loads((shared_path / "trace.json").read_text())
    assert {event["tid"] for event in trace} == {0, 1}
    passes = [event for event in trace if event["name"] == "forward" and event["tid"] == 1]
    assert len(passes) == 2 * 90  # 1,438 samples in batches of 16
    result = json.loads((shared_path / "run" / "result.json").read_text())
    phases = result["phases"]
    for name in ("load", "forward", "backward", "exchange", "update", "evaluate"):
        assert all(seconds > 0 for seconds in phases["seconds"][name]), name
    for rank in range(2):
        seconds = {name: ranks[rank] for name, ranks in phases["seconds"].items()}
        assert sum(seconds.values()) == pytest.approx(phases["elapsed"][rank], rel=1e-3)
        # Where others have the cores a good part of the time passes between two phases.
        assert seconds["other"] < 0.5 * phases["elapsed"][rank]
    assert result["training_ranks"] == 2
    parameters = 18_138  # of simplecnn for digits; a row has room for each parameter's alignment
    assert 2 * 4 * parameters < result["bytes_per_step"] < 2 * 4 * parameters * 1.05
    _check_recorded(shared_path / "run", result, parameters=parameters)


def _check_recorded(run: Path, result: dict[str, Any], *, parameters: int) -> None:
    """What a report is made of."""
    assert result["parameters"] == parameters
    assert len(result["hosts"]) == len(result["memory_bytes_by_rank"]) == 2
    assert max(result["memory_bytes_by_rank"]) == result["memory_bytes_per_rank"]
    counts = result["test"]["confusion"]
    assert sum(map(sum, counts)) == result["test"]["count"]
    right = sum(row[index] for index, row in enumerate(counts)) / result["test"]["count"]
    assert right == pytest.approx(result["test"]["accuracy"])
    assert [table["title"] for table in result["tables"]].count("Confusion") == 0
    with (run / "phases.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["epoch"], row["rank"]) for row in rows] == [
        ("1", "0"),
        ("1", "1"),
        ("2", "0"),
        ("2", "1"),
    ]
    for rank in range(2):
        backward = sum(float(row["backward_seconds"]) for row in rows if int(row["rank"]) == rank)
        assert 0 < backward <= result["phases"]["seconds"]["backward"][rank] + 1e-4


def test_names_with_brackets_and_a_folder_that_was_used_in_vain(
    phalanx: Phalanx, tmp_path: Path
) -> None:
    rows = [f"{i % 3},{i},{('[/ok]', '[red]', 'plain')[i % 3]}" for i in range(60)]
    (tmp_path / "names.csv").write_text("\n".join(["a,b,kind", *rows]))
    (tmp_path / "out[red]").mkdir()
    (tmp_path / "out[red]" / "config.json").write_text("{}")  # of a run that never began
    done = phalanx(
        *("train", "--dataset", "csv", "--data-dir", "names.csv", "--epochs", 2, "--normalise"),
        *("--metrics", "confusion", "--output", "out[red]", "--validation-split", 0.25),
        *("--batch-size", "full", "--trace", "traces/one.json", "--profile"),
    )
    assert done.returncode == 0, done.stderr
    for shown in ("[/ok]", "[red]", "run: out[red]", "36 training, 12 validation, 12 test samples"):
        assert shown in done.stdout
    assert "36 samples a step" in done.stdout
    assert json.loads((tmp_path / "traces" / "one.json").read_text())
    result = json.loads((tmp_path / "out[red]" / "result.json").read_text())
    assert sorted(result["classes"]) == ["[/ok]", "[red]", "plain"]


def test_a_training_that_diverges_says_so_and_leaves_its_history(
    phalanx: Phalanx, tmp_path: Path
) -> None:
    done = phalanx(*SMALL, "--learning-rate", "1e30", "--output", "run", "--epochs", 3)
    assert done.returncode == 1
    assert "DivergedError: the loss of epoch" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "run" / "history.csv").exists()
    assert not (tmp_path / "run" / "result.json").exists()


def test_more_steps_than_an_epoch_has_are_refused(phalanx: Phalanx, tmp_path: Path) -> None:
    done = phalanx("train", "--dataset", "iris", "--batch-size", 40, "--steps-per-epoch", 5)
    assert done.returncode == 2
    assert "--steps-per-epoch 5: an epoch has 3 batches of 40 samples" in done.stderr
    assert not (tmp_path / "runs").exists()
