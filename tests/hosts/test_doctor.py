"""`phalanx doctor` examines hosts: those that are there, and one that is not."""

import json
from pathlib import Path

import pytest

from tests.hosts.network import Network


@pytest.mark.long
def test_hosts_are_reached_compared_and_measured(hosts: Network, tmp_path: Path) -> None:
    first, second, _ = hosts.names
    done = hosts.on_first(
        *("phalanx", "doctor", "--json", "--time-limit", "60"),
        *("-H", f"{first},{second},nowhere.invalid"),
        folder=tmp_path,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    assert found[first]["said"] == found[second]["said"] == "a rank starts there"
    assert found["nowhere.invalid"]["verdict"] == "broken"
    assert found["ranks"]["verdict"] == "broken"

    done = hosts.on_first(
        *("phalanx", "doctor", "--json", "--time-limit", "100", "-H", f"{first},{second}"),
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["same versions"]["said"].endswith("on 2 hosts")
    link = found[f"{first} to {second}"]["facts"]
    assert link["rank"] == 1
    assert link["bandwidth"] > 0
    assert len(found["collectives"]["facts"]["right"]) == 10
    assert hosts.wait_until_idle() == []
