"""What docs/any-model.md shows runs as it stands there."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "any-model.md"


@pytest.mark.ranks(1, 2)
def test_the_blocks_run_one_after_the_other(comm: Any) -> None:
    """On all ranks of the job, as `mpirun` would have them."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 5
    known: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), known)
    assert known["result"].count == 200
    assert (known["scores"] is not None) == (comm.rank == 0)
    assert 0 < known["error"] < 1
    assert len(known["history"]) == 2
