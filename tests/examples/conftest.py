"""Running the examples as their readers do: as modules, from the project's folder."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import environment
from tests.data.conftest import idx_folder, real_data

__all__ = ["idx_folder", "real_data"]

Example = Callable[..., str]
PROJECT = Path(__file__).parents[2]


@pytest.fixture
def example() -> Example:
    """Runs `python -m examples.NAME ARGUMENTS` to its end, and gives what it printed."""

    def run(name: str, *arguments: object) -> str:
        done = subprocess.run(
            [sys.executable, "-m", f"examples.{name}", *map(str, arguments)],
            cwd=PROJECT,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
