"""The notebook, run as in Jupyter; in the same kernel then a rank that fails and a stopped cell."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.commands import environment
from tests.examples.conftest import PROJECT
from tests.examples.notebook_cells import STOPPED

FAILS = """
def bad(which):
    import os
    if os.environ["OMPI_COMM_WORLD_RANK"] == which:
        raise KeyError("no such seal")

phalanx.launch(bad, ("1",), ranks=2)
"""
WAITS = f"""{STOPPED}
def wait():
    import os, pathlib, time
    pathlib.Path("rank-" + os.environ["OMPI_COMM_WORLD_RANK"]).touch()
    time.sleep(3600)

phalanx.launch(wait, ranks=2)
"""
AGAIN = (
    "import os, sys; [phalanx.launch(os.getcwd, ranks=1) == [os.getcwd()], 'mpi4py' in sys.modules]"
)


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The cells of the example that are code, then those above."""
    folder = tmp_path_factory.mktemp("notebook")
    own = {name: str(folder / name) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR")}
    notebook = PROJECT / "examples" / "notebook.ipynb"
    done = subprocess.run(
        [sys.executable, "-m", "tests.examples.notebook_cells", notebook, folder],
        cwd=PROJECT,
        env=environment() | own,
        input=json.dumps([FAILS, WAITS, AGAIN]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [cell for cell in json.loads(done.stdout) if cell["cell_type"] == "code"]


def shown_by(cell: Any) -> str:
    """What is below a cell, in plain text."""
    shown = ""
    for output in cell["outputs"]:
        assert output["output_type"] != "error", output
        shown += output["text"] if "text" in output else output["data"]["text/plain"]
    return shown


def test_ranks_train_and_the_notebook_has_the_weights(cells: list[Any]) -> None:
    launched, used = (shown_by(cell) for cell in cells[2:4])
    *drawn, last = launched.split("\r")
    assert last.startswith("epoch 8 of 8: loss ")
    assert "\n" not in "".join(drawn)  # one line, which changes
    accuracy = float(last.rpartition(" ")[2].rstrip(")]"))
    assert accuracy > 0.9
    assert last.endswith(f"[(0, {accuracy}), (1, {accuracy})]")
    assert used.startswith(f"accuracy {accuracy:.1%}; the first ten: [")


def test_a_rank_that_fails_is_one_exception(cells: list[Any]) -> None:
    (error,) = cells[4]["outputs"]
    assert (error["output_type"], error["ename"]) == ("error", "RankFailedError")
    assert error["evalue"].startswith("rank 1 of 2: KeyError: 'no such seal'\n\nTraceback (most")
    # The line of the cell, which is in no file that a rank could read.
    assert '    raise KeyError("no such seal")' in error["evalue"]


def test_a_stopped_cell_leaves_no_process(cells: list[Any]) -> None:
    assert cells[5]["outputs"][-1]["ename"] == "KeyboardInterrupt"
    assert cells[5]["metadata"]["left"] == 0
    assert shown_by(cells[6]) == "[True, False]"
