"""Output that goes to a place which takes ASCII alone, or nothing: never a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import PATIENCE, Phalanx, environment

TRAIN = ("train", "--epochs", 1, "--output", "run")


@pytest.mark.parametrize("arguments", [TRAIN, ("models",), ("train", "--help")], ids=str)
def test_ascii(process: Phalanx, arguments: tuple[object, ...]) -> None:
    done = process(*arguments, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert len(done.stdout.splitlines()) > 10
    assert "??" not in done.stdout


def run_into(tmp_path: Path, command: str) -> subprocess.CompletedProcess[str]:
    """A shell's command, with Python as $PYTHON."""
    return subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        env=environment() | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_full_disk_behind_standard_output(tmp_path: Path, ranks: int) -> None:
    command = f'"$PYTHON" -m phalanx train --epochs 1 --output run --ranks {ranks}'
    done = run_into(tmp_path, f"{command} >/dev/full")
    assert done.stderr == "standard output cannot be written: No space left on device\n"
    assert done.returncode == 1
    assert (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_reader_that_leaves(tmp_path: Path, ranks: int) -> None:
    command = f'"$PYTHON" -m phalanx train --epochs 1 --output run --ranks {ranks} | head -1'
    done = run_into(tmp_path, f"set -o pipefail; {command}")
    assert done.stderr == ""
    assert done.returncode == 0
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_a_closed_standard_output(tmp_path: Path) -> None:
    done = run_into(tmp_path, '"$PYTHON" -m phalanx train --epochs 1 --output run >&-')
    assert (done.stderr, done.returncode) == ("", 0)
    assert (tmp_path / "run" / "model.safetensors").exists()
    assert "--epochs" not in (tmp_path / "run" / "config.json").read_text()


@pytest.mark.parametrize("width", [10**12, 10**18])
def test_a_model_that_no_memory_holds(phalanx: Phalanx, width: int) -> None:
    done = phalanx("train", "--hidden", width)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "UsageError: model mlp: its " in done.stderr


def test_a_users_file_that_does_not_load(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("from no_such_package import make\n")
    done = phalanx("train", "--model", "net.py:make")
    assert done.returncode == 1
    says = "ModuleNotFoundError: No module named 'no_such_package'"
    assert done.stderr.splitlines()[-1].startswith(says)
    assert "net.py" in done.stderr
    assert "phalanx/" not in done.stderr
    assert "importlib" not in done.stderr
    assert len(done.stderr.splitlines()) <= 6
