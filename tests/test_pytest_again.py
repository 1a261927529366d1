"""`tools/pytest-again`: what failed is tried once more, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "pytest-again"
#: Fails once, or always; passes from the first.
TESTS = """
from pathlib import Path

def note(name):
    with open("tried", "a") as file:
        print(name, file=file)

def test_race():
    note("race")
    assert Path("tried").read_text().count("race") == 2

def test_sound():
    note("sound")

def test_broken():
    note("broken")
    assert {sound}
"""


@pytest.mark.parametrize("sound", [True, False])
def test_only_what_failed_is_tried_again(tmp_path: Path, sound: bool) -> None:
    (tmp_path / "test_it.py").write_text(TESTS.format(sound=sound))
    done = run(tmp_path)
    tried = (tmp_path / "tried").read_text().split()
    assert tried == ["race", "sound", "broken", "race", *["broken"] * (not sound)]
    assert done.returncode == (0 if sound else 1)
    assert "has a race" in done.stdout


def test_no_tests_is_no_success(tmp_path: Path) -> None:
    assert run(tmp_path).returncode == 5


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(TOOL), sys.executable, "-p", "no:hypothesispytest"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
