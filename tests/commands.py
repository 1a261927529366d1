"""A pytest plugin to run the command line: in a process of its own, in an empty folder."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.ranks_job import YIELDING
from tests.zygote import Zygote

Phalanx = Callable[..., subprocess.CompletedProcess[str]]

#: One thread a rank everywhere, and ranks that let others run while they wait: a test may then
#: compare bits, and the cores are left in peace.
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "COLUMNS": "120", **YIELDING}
#: Seconds after which something hangs, on a machine that others use as well: never what a test is
#: about, and only waited for when it fails.
PATIENCE = 240.0
#: How variables begin that are about a job, or that torch's compiler sets in this process.
_NOT_OURS = ("OMPI_", "PMIX_", "PRTE_", "PHALANX_", "TORCHINDUCTOR_", "_TORCHINDUCTOR_")
_BEGUN = time.time()


def environment() -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_OURS)}
    return ours | _ENVIRONMENT


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """One for all commands of all tests."""
    zygote = Zygote(environment())
    yield zygote
    zygote.close()


@pytest.fixture
def phalanx(tmp_path: Path, zygote: Zygote, process: Phalanx) -> Phalanx:
    """Runs `phalanx ARGUMENTS` in the test's folder, to its end; in a fork where that will do."""

    def run(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        env = environment() | variables
        if not zygote.suits(env):
            return process(*arguments, **variables)
        return zygote.run("phalanx", [*map(str, arguments)], cwd=tmp_path, env=env)

    return run


@pytest.fixture
def process(tmp_path: Path) -> Phalanx:
    """The same in a process that starts from nothing, with another command `before` it."""

    def run(
        *arguments: object, before: tuple[str, ...] = (), **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*before, sys.executable, "-m", "phalanx", *map(str, arguments)],
            cwd=tmp_path,
            env=environment() | variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    return run


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `phalanx ARGUMENTS` and leaves it running; whatever is left is killed afterwards."""
    running: list[subprocess.Popen[str]] = []

    def run(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "phalanx", *map(str, arguments)],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


def end_of(process: subprocess.Popen[str]) -> tuple[str, str]:
    """All that a process says to its end, on both streams."""
    return process.communicate(timeout=PATIENCE)


def processes_in(folder: Path) -> list[int]:
    """The processes that work in a folder: a test's own, whatever became of their parents."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").resolve() == folder:
                found.append(int(entry.name))
        except OSError:  # gone meanwhile, or somebody else's
            continue
    return found


def shared_memory() -> list[str]:
    """What has a name of ours in the machine's shared memory, since these tests began."""
    found = []
    for path in Path("/dev/shm").glob("phalanx*"):
        with suppress(FileNotFoundError):  # most are there for a moment, as those of other tests
            # A run that found no space elsewhere is kept there on purpose.
            if "-run-" not in path.name and path.stat().st_ctime > _BEGUN:
                found.append(path.name)
    return found


def left_behind(folder: Path, *, seconds: float = PATIENCE) -> list[str]:
    """What a job in a folder leaves: processes, and names in shared memory, even after so long."""
    deadline = time.monotonic() + seconds
    while True:
        left = [*map(str, processes_in(folder)), *shared_memory()]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)
