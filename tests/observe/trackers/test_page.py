"""What docs/trackers.md shows runs as it stands there."""

import re
from pathlib import Path

import pytest

from phalanx.comm.base import Communicator
from tests.observe.trackers import readers

PAGE = Path(__file__).parents[3] / "docs" / "trackers.md"


@pytest.mark.long
@pytest.mark.ranks(2)
def test_the_block_runs_on_ranks(
    comm: Communicator, shared_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shared_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(block, str(PAGE), "exec"), {"__name__": "page"})
    if comm.rank == 0:
        events, _ = readers.tensorboard(shared_path / "events")
        metrics, _ = readers.mlflow(f"sqlite:///{shared_path}/mlflow.db", "points")
        assert set(events) == set(metrics)
        for found in (events, metrics):
            assert [step for step, _ in found["loss/train"]] == [1, 2, 3]
