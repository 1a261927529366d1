"""One rank of a job of tests: runs them as pytest does, and writes down what happens."""

import faulthandler
import json
import os
import signal
import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mpi4py import MPI

from phalanx.comm.launch.process import die_with_parent

if TYPE_CHECKING:
    from phalanx.comm.base import Communicator


class Worker:
    """Runs the listed tests in their order, in step with the other ranks."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        die_with_parent()
        self._folder = folder
        self._world = MPI.COMM_WORLD.Dup()
        self._patience: float = config.getoption("--ranks-patience")
        self._failed = False
        self._opened: list[Communicator] = []
        name = f"rank-{self._world.rank}"
        config.option.basetemp = str(folder / name)
        self._stack = (folder / f"{name}.stack").open("w")
        faulthandler.register(signal.SIGUSR1, file=self._stack, all_threads=True)
        self._log = (folder / f"{name}.jsonl").open("w", buffering=1)
        self._write("ready", process=os.getpid())

    @property
    def size(self) -> int:
        """The number of ranks of the job."""
        return int(self._world.size)

    def open(self, *, checked: bool = True) -> "Communicator":
        """Collective. A communicator for the test that runs, freed after it."""
        from phalanx.comm.checked import CheckedCommunicator
        from phalanx.comm.mpi import open_world

        comm: Communicator = open_world()
        self._opened.append(comm)
        return CheckedCommunicator(comm) if checked else comm

    def share(self, path: Path) -> Path:
        """Collective. Rank 0's path."""
        return Path(self._world.bcast(str(path)))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        found = {item.nodeid: item for item in items}
        wanted: list[str] = json.loads((self._folder / "tests.json").read_text())
        items[:] = [found[name] for name in wanted if name in found]
        if session.testsfailed:
            return  # pytest is going to tell why a file could not be read
        if missing := [name for name in wanted if name not in found]:
            raise pytest.UsageError(f"not the same tests on a rank, which lacks {missing}")
        session.config.pluginmanager.unregister(name="terminalreporter")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._failed = False
        self._write("start", test=item.nodeid)
        result = yield
        self._meet(item.nodeid)
        # Not in the fixture's teardown: to free is collective, and others may never get there.
        while self._opened:
            self._opened.pop().free()
        self._write("finish", test=item.nodeid)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed
        skipped = isinstance(report.longrepr, tuple)
        self._write(
            "report",
            test=report.nodeid,
            when=report.when,
            result=report.outcome,
            explanation=report.longrepr if skipped else report.longreprtext,
            sections=report.sections,
            duration=report.duration,
            expected_failure=getattr(report, "wasxfail", None),
        )

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.TESTS_FAILED:
            session.exitstatus = pytest.ExitCode.OK  # the log tells; a code is for a failed rank

    def pytest_unconfigure(self) -> None:
        faulthandler.unregister(signal.SIGUSR1)
        self._stack.close()
        self._log.close()

    def _meet(self, test: str) -> None:
        """Collective. Wait for the other ranks; after a failure here, complain if none comes."""
        barrier = self._world.Ibarrier()
        deadline = time.monotonic() + self._patience if self._failed else float("inf")
        while not barrier.Test():
            if time.monotonic() > deadline:
                self._write("alone", test=test)
                deadline = float("inf")  # this job will be ended
            time.sleep(0.0005)

    def _write(self, event: str, **fields: Any) -> None:
        self._log.write(json.dumps({"event": event, **fields}) + "\n")
