"""Runs a notebook's cells, and some more, as Jupyter would: `python -m … NOTEBOOK FOLDER`.

The other cells are read from standard input; what all have come to is written, as JSON. It is a
process of its own: Jupyter's event loops stay behind, and tests take that for an error.
"""

import json
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import nbformat
from nbclient import NotebookClient

from tests.commands import processes_in

#: Seconds for a cell, on a machine that is busy with other things.
PATIENCE = 240
#: What a cell begins with that is stopped, as by the button, once there are two files `rank-*`.
STOPPED = "# stopped\n"


def main(notebook: Path, folder: Path) -> None:
    cells = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    for source in json.load(sys.stdin):
        cells.cells.append(nbformat.v4.new_code_cell(source))  # type: ignore[no-untyped-call]
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(cells, timeout=PATIENCE, resources=resources, allow_errors=True)
    with client.setup_kernel():
        for index, cell in enumerate(cells.cells):
            if cell.source.startswith(STOPPED):
                threading.Thread(target=stop_when_ranks_are_there, args=(client, folder)).start()
            client.execute_cell(cell, index)
            if cell.source.startswith(STOPPED):
                cell.metadata["left"] = left_besides_the_kernel(folder)
    json.dump(cells.cells, sys.stdout)


def stop_when_ranks_are_there(client: NotebookClient, folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(list(folder.glob("rank-*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    interrupt = cast(Any, client.km).interrupt_kernel()
    with suppress(StopIteration):
        interrupt.send(None)  # it has nothing to wait for


def left_besides_the_kernel(folder: Path, *, seconds: float = PATIENCE) -> int:
    """How many processes work in the folder, besides the kernel, even after so long."""
    deadline = time.monotonic() + seconds
    while (left := len(processes_in(folder)) - 1) > 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
