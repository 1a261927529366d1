"""A rank that is killed in the middle of a training: what `--on-failure` says becomes of the rest.

Random faults are in tests/chaos.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.interruption.test_failures import rank_process
from tests.cli.interruption.waiting import SAMPLES, until_it_waits, waits
from tests.commands import Phalanx, end_of, environment, left_behind
from tests.zygote import Zygote

Start = Callable[..., subprocess.Popen[str]]
TRAINING = ("train", *SAMPLES, "--shards", 4, "--epochs", 8)


def digest_in(said: str) -> str:
    (found,) = re.findall(r"^weights sha256: (\w{64})$", said, re.M)
    return str(found)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, zygote: Zygote) -> str:
    folder = tmp_path_factory.mktemp("undisturbed")
    asked = [*map(str, (*TRAINING, *waits(folder, "never")))]
    return digest_in(zygote.run("phalanx", asked, cwd=folder, env=environment()).stdout)


@pytest.mark.parametrize(
    ("flags", "goes_on"),
    [
        (("--on-failure", "shrink"), "2 ranks go on"),
        pytest.param(
            ("--on-failure", "shrink", "--replace"),
            "3 ranks, 1 of them new, go on",
            marks=pytest.mark.long,
        ),
        pytest.param(
            ("--on-failure", "restart", "--checkpoint-every", 20),
            "starting again (1 of 3)",
            marks=pytest.mark.long,
        ),
    ],
    ids=["shrink", "replace", "restart"],
)
def test_goes_on_without_rank_0_to_the_same_bits(
    start: Start, tmp_path: Path, undisturbed: str, flags: tuple[str, ...], goes_on: str
) -> None:
    there = waits(tmp_path, "pass 70", who=0)
    process = start(*TRAINING, *there, "--ranks", 3, "--output", "run", *flags)
    until_it_waits(tmp_path, process)
    os.kill(rank_process(process.pid, 0), signal.SIGKILL)
    said, errors = end_of(process)
    assert process.returncode == 0, errors
    assert goes_on in errors
    assert digest_in(said) == undisturbed
    rows = (tmp_path / "run" / "history.csv").read_text().splitlines()[1:]
    assert [int(row.partition(",")[0]) for row in rows] == [*range(1, 9)]
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["ranks"] == (2 if goes_on.startswith("2") else 3)
    assert [loss["ranks"] for loss in result.get("losses", [])] == [[0]] * ("lost" in errors)
    assert left_behind(tmp_path) == []


def test_stop_says_how_to_go_on(start: Start, tmp_path: Path, phalanx: Phalanx) -> None:
    asked = (*TRAINING, *waits(tmp_path, "pass 70"), "--checkpoint-every", 10)
    process = start(*asked, "--ranks", 2, "--output", "run")
    until_it_waits(tmp_path, process)
    os.kill(rank_process(process.pid, 1), signal.SIGKILL)
    errors = end_of(process)[1]
    assert process.returncode == 128 + signal.SIGKILL
    assert "rank 1 was ended by signal 9" in errors
    assert "phalanx train --resume run" in errors
    assert left_behind(tmp_path) == []


def test_ranks_of_others_cannot_do_it(phalanx: Phalanx) -> None:
    """Those of an mpirun without fault tolerance, or of srun."""
    job = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}
    done = phalanx("train", "--on-failure", "shrink", **job)
    assert done.returncode == 2
    assert "`mpirun --with-ft ulfm`; `srun` cannot do it: in Slurm take `--requeue`" in done.stderr
    done = phalanx("train", "--on-failure", "restart", **job)
    assert done.returncode == 2
    assert "nobody here can start these ranks again" in done.stderr


def test_one_rank_alone_cannot_shrink(phalanx: Phalanx) -> None:
    done = phalanx("train", "--on-failure", "shrink")
    assert done.returncode == 2
    assert "one rank alone leaves none" in done.stderr
