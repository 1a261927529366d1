"""A rank that is lost while others train by `fit` in `hvd.elastic.run`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import environment
from tests.keras.test_keras import BACKENDS, ROOT


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_others_go_on(backend: str, tmp_path: Path) -> None:
    job = [sys.executable, "-m", "tests.keras.job_lost", str(tmp_path)]
    flags = ["--horovod", "-n", "3", "--min-np", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "phalanx", "run", *flags, *job],
        cwd=ROOT,
        env=environment() | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "rank 0 is lost: going on from the last commit with 2" in done.stderr.splitlines()
    first, second = (json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2))
    # Of the second epoch batches 0 to 4 were done, and committed up to 3.
    assert first["starts"] == second["starts"] == [[3, 0, 0], [2, 1, 3]]
    assert first["resets"] == second["resets"] == [2]
    assert first["end"] == second["end"]
    assert first["end"][0] == 3
