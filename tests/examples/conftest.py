"""Running the examples as their readers do: as modules, from the project's folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import environment
from tests.data.conftest import idx_folder, real_data
from tests.horovod.conftest import horovod
from tests.zygote import Zygote

__all__ = ["horovod", "idx_folder", "real_data"]

Example = Callable[..., str]
PROJECT = Path(__file__).parents[2]


@pytest.fixture
def example(zygote: Zygote) -> Example:
    """Runs `python -m examples.NAME ARGUMENTS` to its end, and gives what it printed."""

    def run(name: str, *arguments: object) -> str:
        words = [*map(str, arguments)]
        done = zygote.run(f"examples.{name}", words, cwd=PROJECT, env=environment())
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
