"""Slurm's daemons as one process: `python slurm_daemons.py FOLDER`, which has slurm.conf in it.

Slurm's job steps outlive its daemons, on purpose. This process adopts whatever loses its parent, so
it knows all that was ever started here. When its input ends, because the tests are done or because
they were killed, it ends all of that and removes the folder. No control groups or namespaces are
needed.
"""

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


def run(folder: Path) -> None:
    """Run munged, slurmctld and slurmd until standard input ends; what goes wrong is printed."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        daemons = _start(folder)
        names = {process.pid: name for name, process in daemons.items()}
        while not select.select([sys.stdin], [], [], 0.1)[0]:
            for process, code in _ended_children():
                if process in names:
                    print(f"{names[process]} ended with code {code}", flush=True)
    finally:
        _end_descendants()
        shutil.rmtree(folder)


def _start(folder: Path) -> dict[str, "subprocess.Popen[bytes]"]:
    """Start the daemons; those that stay this one's children, by name.

    Hold on to them: a Popen that nobody holds takes its process's exit code along.
    """
    munge = folder / "munge"
    paths = {"key": "key", "socket": "socket", "pid": "pid", "seed": "seed", "log": "log"}
    options = [
        f"--{name}{'' if name == 'socket' else '-file'}={munge / file}"
        for name, file in paths.items()
    ]
    # It goes into the background as soon as its socket is there. Forced: it warns about folders
    # that others may not enter, and about others that may.
    subprocess.run(["munged", "--force", "--num-threads=2", *options], check=True)
    daemons = {}
    for name in ("slurmctld", "slurmd"):
        with (folder / f"{name}.log").open("wb") as log:
            command = [name, "-D", "-f", str(folder / "slurm.conf")]
            daemons[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
    return daemons


def _ended_children() -> Iterator[tuple[int, int]]:
    with suppress(ChildProcessError):
        while True:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return
            yield process, os.waitstatus_to_exitcode(status)


def _end_descendants() -> None:
    """Kill until nobody is left: some of them start others meanwhile."""
    while descendants := list(_descendants()):
        for process in descendants:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)
        list(_ended_children())


def _descendants() -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # gone meanwhile
            if entry.name.isdigit():
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(entry.name))
    found = children.get(os.getpid(), [])
    while found:
        process = found.pop()
        yield process
        found.extend(children.get(process, []))


if __name__ == "__main__":
    run(Path(sys.argv[1]))
