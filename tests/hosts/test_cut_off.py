"""A host whose cable is cut: no connection is closed, and the others go on without it."""

import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.commands import PATIENCE, environment
from tests.hosts.network import Network
from tests.zygote import Zygote

TRAINING = ("train", "--shards", "2", "--epochs", "40", "--model", "simplecnn")


@pytest.fixture(scope="module")
def undisturbed(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What one rank says of the same training."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return zygote.run("phalanx", [*TRAINING], cwd=folder, env=environment()).stdout


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["allreduce", "central"])
def test_the_others_go_on_without_a_host_that_falls_silent(
    hosts: Network, tmp_path: Path, undisturbed: str, strategy: str
) -> None:
    run = tmp_path / "run"
    command = [*TRAINING, "--on-failure", "shrink", "--strategy", strategy, "--output", str(run)]
    with hosts.started((1, 1), "phalanx", *command, folder=tmp_path) as job:
        wait_for_epoch(run, 3, job)
        with hosts.cut_off(1):
            cut = time.time()
            code = job.wait(timeout=PATIENCE)
            said = (tmp_path / "output").read_text()
    assert code == 0, said
    assert re.search(r"^rank 1 is lost after step \d+: 1 rank goes on from step", said, re.M)
    (digest,) = re.findall(r"^weights sha256: (\w{64})$", said, re.M)
    assert f"weights sha256: {digest}" in undisturbed
    (loss,) = json.loads((run / "result.json").read_text())["losses"]
    assert loss["noticed"] > cut  # by some 8 s, for which signs of life must have stayed out


def wait_for_epoch(run: Path, number: int, job: "subprocess.Popen[bytes]") -> None:
    history, deadline = run / "history.csv", time.monotonic() + PATIENCE
    while not history.exists() or len(history.read_text().splitlines()) <= number:
        assert job.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
