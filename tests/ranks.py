"""A pytest plugin for tests that run inside MPI jobs.

`@pytest.mark.ranks(1, 2, 4)` runs a test in jobs of 1, 2 and 4 ranks, every rank the same function.
Because starting a job takes seconds, one job runs all tests of its number of ranks, one after the
other. Each rank is a pytest of its own (`ranks_worker`) that writes down what happens; this process
reads along (`ranks_job`), reports, and starts a new job for the rest when a test has lost one.

Jobs begin while tests without a mark still run here, and take what these leave of the cores.
"""

from argparse import SUPPRESS
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from tests.ranks_job import Batch
from tests.ranks_outcome import Outcome

if TYPE_CHECKING:
    from phalanx.comm.base import Communicator
    from tests.ranks_worker import Worker

_WORKER = "ranks-worker"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ranks")
    group.addoption(
        "--ranks-stall",
        type=float,
        default=240,
        metavar="SECONDS",
        help="end an MPI job that shows no progress for so long",
    )
    group.addoption(
        "--ranks-patience",
        type=float,
        default=30,
        metavar="SECONDS",
        help="how long a rank whose test failed waits for the other ranks",
    )
    group.addoption("--ranks-worker", metavar="FOLDER", help=SUPPRESS)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ranks(*counts): run in MPI jobs of these many ranks")
    folder = config.getoption("--ranks-worker")
    if folder is None:
        config.pluginmanager.register(_Parent(config), "ranks-parent")
        return
    from tests.ranks_worker import Worker

    config.pluginmanager.register(Worker(config, Path(folder)), _WORKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("ranks")
    if marker is None:
        return
    if "ranks" not in metafunc.fixturenames:
        metafunc.fixturenames.append("ranks")
    worker: Worker | None = metafunc.config.pluginmanager.get_plugin(_WORKER)
    # A rank of a job has no use for tests of other numbers, of which there are thousands.
    counts = [one for one in marker.args if worker is None or one == worker.size]
    # Four show little that two or three do not.
    fewer = bool({2, 3}.intersection(marker.args))
    cases = [
        pytest.param(
            count,
            id=f"{count} rank{'s' * (count > 1)}",
            marks=[pytest.mark.long] * (count > 3 and fewer),
        )
        for count in counts
    ]
    metafunc.parametrize("ranks", cases, indirect=True)


def ranks_of(item: pytest.Item) -> int:
    """The size of the job that an item runs in, or 0 for none."""
    if item.get_closest_marker("ranks") is None or not isinstance(item, pytest.Function):
        return 0
    count = item.callspec.params["ranks"]
    assert isinstance(count, int)
    return count


@pytest.fixture
def ranks(request: pytest.FixtureRequest) -> int:
    """The number of ranks that the test runs on."""
    return int(request.param)


@pytest.fixture
def comm(request: pytest.FixtureRequest) -> "Communicator":
    """Collective. All ranks of the job, with every operation checked; new for each test."""
    return worker_of(request).open()


@pytest.fixture
def shared_path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Collective. An empty folder, the same one on all ranks."""
    return worker_of(request).share(tmp_path)


def worker_of(request: pytest.FixtureRequest) -> "Worker":
    """The rank that runs the test which asks."""
    worker: Worker | None = request.config.pluginmanager.get_plugin(_WORKER)
    if worker is None:
        pytest.fail(f"{request.fixturename} needs @pytest.mark.ranks(...)", pytrace=False)
    return worker


class _Parent:
    """Runs no marked test itself: has it run in a job, and reports what came of it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._batches: dict[int, Batch] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=ranks_of)  # so that no two jobs run at the same time

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for count in sorted(set(map(ranks_of, session.items)) - {0}):
            tests = [item for item in session.items if ranks_of(item) == count]
            self._batches[count] = Batch(self._config, tests, ranks=count)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        count = ranks_of(item)
        if not count:
            self._work_ahead()
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        outcome = self._batches[count].outcome(item.nodeid)
        for report in _reports(item, outcome):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _work_ahead(self) -> None:
        """Have the next job run, if none does."""
        for one in self._batches.values():
            one.look()
        if not any(batch.is_running for batch in self._batches.values()):
            batch = next((one for one in self._batches.values() if not one.was_started), None)
            if batch is not None:
                batch.start()

    def pytest_sessionfinish(self) -> None:
        for batch in self._batches.values():
            batch.close()


def _reports(item: pytest.Item, outcome: Outcome) -> list[pytest.TestReport]:
    """What pytest hears of an item: all that matters is in the report about the call."""
    keywords: dict[str, Literal[1]] = dict.fromkeys(item.keywords, 1)
    setup, teardown = (
        pytest.TestReport(item.nodeid, item.location, keywords, "passed", None, when)
        for when in ("setup", "teardown")
    )
    call = pytest.TestReport(
        item.nodeid,
        item.location,
        keywords,
        outcome.result,
        outcome.explanation,
        "call",
        sections=outcome.sections,
        duration=outcome.duration,
    )
    if outcome.expected_failure is not None:
        call.wasxfail = outcome.expected_failure
    return [setup, call, teardown]
