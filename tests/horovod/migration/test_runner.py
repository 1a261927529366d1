"""`horovod.run`: a function on ranks; what comes back, and what is refused."""

import os
from pathlib import Path
from typing import Any

import pytest

from phalanx.comm.calls.environment import rank_environment
from phalanx.errors import UsageError
from phalanx.horovod import run
from phalanx.horovod.torch import HorovodInternalError
from tests.commands import environment


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("hosts", [None, "localhost:2"])
def test_results_are_in_the_order_of_ranks(hosts: str | None) -> None:
    base = 10

    def power(exponent: int, *, plus: int) -> Any:
        rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
        return lambda: base**exponent + plus + rank

    results = run(power, (2,), {"plus": 1}, num_proc=2, hosts=hosts)
    assert [one() for one in results] == [101, 102]
    assert os.listdir() == []  # where hosts have shared the function


def test_a_function_that_fails(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ArithmeticError("the seventh seal")

    with pytest.raises(RuntimeError, match="the job ended with exit code 1"):
        run(fail, np=1)
    assert "ArithmeticError: the seventh seal" in capfd.readouterr().err


def test_options_are_flags_of_phalanx_run(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HorovodInternalError, match="exit code 2"):
        run(print, np=2, min_np=3, max_np=None, reset_limit=1)
    assert "--min-np 3 is above the 2 ranks to start" in capfd.readouterr().err
    with pytest.raises(HorovodInternalError, match="exit code 2"):
        run(print, np=2, cooldown_range=(1, 2))
    assert "--blacklist-cooldown-range of horovodrun is not for" in capfd.readouterr().err
    with pytest.raises(UsageError, match=r"horovod\.run has no option spark"):
        run(print, np=2, spark=True)


def test_a_job_inside_of_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ranks are not told that they are that one; a user's parameters stay."""
    job = {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0", "PMIX_RANK": "0"}
    job |= {"PRTE_LAUNCHED": "1", "OMPI_MCA_num_procs": "1", "OMPI_MCA_btl": "^ofi"}
    own = {"OMPI_MCA_btl_tcp_if_include": "eth0", "HOROVOD_CYCLE_TIME": "2"}
    for name, value in (job | own).items():
        monkeypatch.setenv(name, value)
    found = rank_environment()
    assert job.keys() & found.keys() == set()
    assert {name: found[name] for name in own} == own


def test_not_on_each_of_many_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    with pytest.raises(UsageError, match="start the script with `phalanx run --horovod -n 1`"):
        run(print, np=2)
