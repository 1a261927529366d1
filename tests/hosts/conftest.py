"""Jobs over several hosts: each layout's job runs once and makes all its checks."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.hosts.job import RESULTS
from tests.hosts.namespaces import NoHostsError
from tests.hosts.network import Network, network


@dataclass(frozen=True)
class Layout:
    """So many ranks on each host, numbered slot by slot or node by node."""

    slots: tuple[int, ...]
    by: str = "slot"

    def __str__(self) -> str:
        return f"{'+'.join(map(str, self.slots))} by {self.by}"

    def hosts(self) -> list[list[int]]:
        """The ranks on each host."""
        rounds = range(max(self.slots)) if self.by == "node" else [0]
        found: list[list[int]] = [[] for _ in self.slots]
        number = 0
        for turn in rounds:
            for host, count in enumerate(self.slots):
                here = int(turn < count) if self.by == "node" else count
                found[host] += range(number, number + here)
                number += here
        return found


#: Three hosts as well, because one between two others both receives and passes on.
LAYOUTS = [
    Layout((2, 1), by="node"),
    *(
        pytest.param(layout, marks=pytest.mark.long)
        for layout in (Layout((2, 1)), Layout((2, 2)), Layout((2, 1, 1), by="node"))
    ),
]


@dataclass(frozen=True)
class Run:
    """A job on several hosts: what every rank found in each check."""

    layout: Layout
    names: list[str]
    results: dict[str, list[Any]]
    left: list[int]


@pytest.fixture(scope="session")
def hosts() -> Iterator[Network]:
    """Three hosts; a skip that says why where there can be none."""
    try:
        with network(3) as made:
            yield made
    except NoHostsError as error:
        pytest.skip(f"several hosts on one machine: {error}")


@pytest.fixture(scope="session", params=LAYOUTS, ids=str)
def run(request: pytest.FixtureRequest, hosts: Network) -> Run:
    """The job of each layout, done."""
    layout: Layout = request.param
    done = hosts.run(layout.slots, "-m", "tests.hosts.job", by=layout.by)
    lines = [line for line in done.stdout.splitlines() if line.startswith(RESULTS)]
    assert done.returncode == 0, done.stdout + done.stderr
    return Run(
        layout=layout,
        names=hosts.names,
        results=json.loads(lines[0].removeprefix(RESULTS)),
        left=hosts.wait_until_idle(),
    )
