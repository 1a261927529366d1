"""Jobs of tests, seen from outside: started, followed through their logs, ended when they stall."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from phalanx.comm.launch.child import start_child
from phalanx.comm.launch.mpiexec import mpiexec_command
from tests.ranks_outcome import Outcome, Report, merge

#: Has ranks that wait let others run: tests may not be alone on the machine.
YIELDING = {"OMPI_MCA_mpi_yield_when_idle": "1"}
#: Seconds for mpiexec to end its ranks before it is killed.
_PATIENCE = 3.0
#: Seconds for ranks to say where they are; one that is stopped never does.
_STACKS = 10.0
#: A busy machine needs its time to start a job, whatever limit suits the tests.
_START = 240.0
_OUTPUT_LINES = 40


class Batch:
    """All tests of one number of ranks: in one job, or in more if tests lose theirs."""

    def __init__(self, config: pytest.Config, items: list[pytest.Item], *, ranks: int) -> None:
        self.ranks = ranks
        self._arguments = _arguments(config, items)
        self._waiting = [item.nodeid for item in items]
        self._outcomes: dict[str, Outcome] = {}
        self._stall: float = config.getoption("--ranks-stall")
        self._job: _Job | None = None
        self.was_started = False

    @property
    def is_running(self) -> bool:
        """Whether there is a job, and it has not ended."""
        return self._job is not None and self._job.is_running

    def start(self) -> None:
        """Begin, before anybody asks for an outcome; all else on this machine goes first."""
        self._begin(niceness=10)

    def look(self) -> None:
        """See how far a job is that nobody waits for: if a test has lost it, the rest goes on."""
        if self._job is not None:
            self._advance(stall=2 * self._stall, niceness=10)

    def outcome(self, test: str) -> Outcome:
        """Wait until the test is done on all ranks; tests are asked for in their order."""
        try:
            while test not in self._outcomes:
                if self._job is None:
                    self._begin()
                self._advance(stall=self._stall)
                time.sleep(0.005)
        except BaseException:
            self.close()
            raise
        return self._outcomes.pop(test)

    def _advance(self, *, stall: float, niceness: int = 0) -> None:
        """Take in what the job has done."""
        job = self._job
        assert job is not None
        job.read()
        while self._waiting and job.is_done(self._waiting[0], last=len(self._waiting) == 1):
            self._keep(job)
        if not self._waiting:
            self.close()
            return
        trouble = job.trouble(stall=stall)
        if trouble is None:
            return
        trouble = f"{trouble}\n\n{job.whereabouts(self._waiting[0])}\n\n{job.output()}"
        started = job.started
        self._keep(job, trouble)
        self.close()
        if not started:  # nor would any other job of these tests
            self._outcomes |= {one: Outcome("failed", trouble) for one in self._waiting}
            self._waiting.clear()
        elif self._waiting:
            self._begin(niceness=niceness)

    def _keep(self, job: "_Job", trouble: str | None = None) -> None:
        test = self._waiting.pop(0)
        by_rank = [log.reports.get(test, []) for log in job.logs]
        self._outcomes[test] = merge(by_rank, trouble=trouble)

    def _begin(self, *, niceness: int = 0) -> None:
        self._job = _Job(self.ranks, self._arguments, tests=self._waiting, niceness=niceness)
        self.was_started = True

    def close(self) -> None:
        """End the job, if there is one."""
        if self._job is not None:
            self._job.end()
            self._job = None


class _Log:
    """What one rank has written so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process: int | None = None
        self.test: str | None = None
        self.reports: dict[str, list[Report]] = {}
        self.finished: set[str] = set()
        self.alone = False
        self._offset = 0

    def read(self) -> int:
        """Take in new lines; how many bytes there were."""
        if not self.path.exists():
            return 0
        with self.path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        complete = text[: text.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.splitlines():
            self._take(json.loads(line))
        return len(complete)

    def _take(self, record: dict[str, Any]) -> None:
        match record["event"]:
            case "ready":
                self.process = record["process"]
            case "start":
                self.test = record["test"]
            case "report":
                self.reports.setdefault(record["test"], []).append(record)
            case "finish":
                self.finished.add(record["test"])
                self.test = None
            case "alone":
                self.alone = True


class _Job:
    """One mpiexec and its ranks."""

    def __init__(
        self, ranks: int, arguments: list[str], *, tests: list[str], niceness: int
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ranks-")
        folder = Path(self._folder.name)
        (folder / "tests.json").write_text(json.dumps(tests))
        self.logs = [_Log(folder / f"rank-{rank}.jsonl") for rank in range(ranks)]
        self._output = folder / "output"
        self._progress = time.monotonic()
        self._code: int | None = None
        command, environment = mpiexec_command(ranks, bind=False)
        environment |= YIELDING
        environment.pop("PYTEST_ADDOPTS", None)  # may select other tests
        with self._output.open("wb") as output:
            self._process = start_child(
                ["nice", "-n", str(niceness), *command, *arguments, f"--ranks-worker={folder}"],
                env=environment,
                stdout=output.fileno(),
                stderr=subprocess.STDOUT,
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def started(self) -> bool:
        """Whether any rank got as far as a test."""
        return any(log.test or log.finished for log in self.logs)

    def read(self) -> None:
        """Take in what the ranks have written."""
        self._code = self._process.poll()  # before reading, so that nothing is left unread
        if sum(log.read() for log in self.logs):
            self._progress = time.monotonic()

    def is_done(self, test: str, *, last: bool) -> bool:
        """Whether all ranks have finished the test, and if it is the last one the job has, too."""
        return all(test in log.finished for log in self.logs) and (self._code == 0 or not last)

    def trouble(self, *, stall: float) -> str | None:
        """Why the test under way will never be done."""
        alone = [str(rank) for rank, log in enumerate(self.logs) if log.alone]
        if alone:
            return f"rank {', '.join(alone)} failed and waited for the others in vain"
        if self._code is not None:
            return f"the job ended with exit code {self._code}"
        limit = stall if self.started else max(stall, _START)
        if time.monotonic() - self._progress > limit:
            return f"no progress on any rank for {limit:g} s"
        return None

    def whereabouts(self, test: str) -> str:
        """Where each rank is, with the Python stack of each."""
        self._ask_for_stacks()
        lines = []
        for rank, log in enumerate(self.logs):
            done = any(report["when"] == "teardown" for report in log.reports.get(test, []))
            place = "in no test" if log.test is None else f"in {log.test}"
            lines.append(f"rank {rank} was {'done with it' if done else place}")
            stack = log.path.with_suffix(".stack")
            if stack.exists():
                lines.append(stack.read_text())
        return "\n".join(lines)

    def _ask_for_stacks(self) -> None:
        """Have every rank write down where it is, and give it the time for it."""
        asked = []
        for log in self.logs:
            if self._process.poll() is None and log.process is not None:
                with suppress(ProcessLookupError):
                    os.kill(log.process, signal.SIGUSR1)
                    asked.append(log.path.with_suffix(".stack"))
        deadline = time.monotonic() + _STACKS
        while any(stack.stat().st_size == 0 for stack in asked) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)  # until all of it is there

    def output(self) -> str:
        """The last lines that the job printed."""
        lines = self._output.read_text(errors="replace").splitlines()
        return "\n".join(["The end of the job's output:", *lines[-_OUTPUT_LINES:]])

    def end(self) -> None:
        """End mpiexec, and with it the ranks."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._folder.cleanup()


def _arguments(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """The pytest that a rank runs: configured as this one, but for what selects and prints."""
    inherited = {"-p": config.option.plugins, "-W": config.option.pythonwarnings}
    overridden = config.option.override_ini or []
    # Ranks keep no cache, and would refuse a setting of one.
    inherited["-o"] = [one for one in overridden if not one.startswith("cache_dir=")]
    inherited["-o"].append("addopts=")
    options = [
        word
        for option, values in inherited.items()
        for value in values or []
        for word in (option, value)
    ]
    if config.inipath is not None:
        options += ["-c", str(config.inipath)]
    for name in ("rootdir", "import-mode", "ranks-patience"):
        value = config.rootpath if name == "rootdir" else config.getoption(f"--{name}")
        options.append(f"--{name}={value}")
    # What MPI and crashing libraries print must reach the job's output, so pytest captures less.
    options += ["--capture=sys", "--no-header", "-q", "-p", "no:cacheprovider"]
    files = dict.fromkeys(str(item.path) for item in items)
    return [sys.executable, "-m", "pytest", *options, *files]
