"""What mpiexec needs before it can start anything, and what becomes of its own failures."""

import os
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from phalanx.comm.launch import preflight
from phalanx.comm.launch.preflight import check_ranks, check_temporary_folder
from phalanx.comm.launch.rank_ends import RankEnds
from phalanx.errors import LaunchError, UsageError
from tests.cli.interruption.test_failures import rank_process
from tests.commands import PATIENCE, Phalanx, end_of, environment, left_behind

Start = Callable[..., subprocess.Popen[str]]


@pytest.mark.parametrize(("cores", "most"), [(1, 64), (2, 64), (64, 1024)])
def test_ranks_that_cannot_be_meant(cores: int, most: int) -> None:
    check_ranks(most, cores=cores)
    with pytest.raises(UsageError, match=f"at most {most} are started here.*run -H"):
        check_ranks(most + 1, cores=cores)


def test_a_hundred_thousand_ranks_are_refused_at_once(phalanx: Phalanx) -> None:
    done = phalanx("train", "--ranks", 100000)
    assert done.returncode == 2
    assert done.stderr.startswith("UsageError: 100000 ranks for ")
    assert done.stderr.count("\n") == 1


def test_without_a_home(phalanx: Phalanx, monkeypatch: pytest.MonkeyPatch) -> None:
    done = phalanx("run", "-n", 2, "sh", "-c", "echo $HOME", HOME="")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (os.path.expanduser(f"~{os.environ.get('USER', 'root')}") + "\n") * 2


def test_a_temporary_folder_that_cannot_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for folder in ("/proc", str(tmp_path / "file")):
        monkeypatch.setenv("TMPDIR", folder)
        with pytest.raises(LaunchError, match=rf"{folder}, which cannot .*with TMPDIR"):
            check_temporary_folder()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "new"))
    check_temporary_folder()


def test_few_descriptors(process: Phalanx) -> None:
    command = ("run", "-n", 2, "true")
    raised = process(*command, before=("sh", "-c", 'ulimit -Sn 24; exec "$@"', "sh"))
    assert (raised.returncode, raised.stderr) == (0, "")
    refused = process(*command, before=("sh", "-c", 'ulimit -n 24; exec "$@"', "sh"))
    assert refused.returncode == 3
    assert refused.stderr.startswith("LaunchError: to start 2 ranks MPI opens some 80 files")
    assert refused.stderr.count("\n") == 1


def test_more_descriptors_for_more_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.append(pair))
    preflight.allow_descriptors(8)
    preflight.allow_descriptors(100)
    assert limits == [(864, 4096)]
    with pytest.raises(LaunchError, match="4096 are allowed"):
        preflight.allow_descriptors(1000)


@pytest.mark.parametrize("command", ["train", "datasets"])
def test_a_folder_that_is_gone(tmp_path: Path, command: str) -> None:
    gone = tmp_path / "gone"
    script = f"cd {gone} && rmdir {gone} && exec {shlex.quote(sys.executable)} -m phalanx {command}"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", script],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("UsageError: the folder that this was called in is gone")
    assert done.stderr.count("\n") == 1


def test_an_unknown_host(phalanx: Phalanx) -> None:
    done = phalanx("run", "-H", "nowhere.invalid:2", "true")
    assert done.returncode == 3
    assert "nobody here knows the host nowhere.invalid (--hosts)" in done.stderr


def ends(lines: Iterable[bytes], code: int) -> None:
    watched = RankEnds()
    assert list(watched.watch(lines)) == list(lines)
    watched.check(code, hosts=None)


def test_whose_failure_it_is() -> None:
    ends([b"prterun detected that one or more processes exited with\n", b"non-zero status"], 213)
    ends([b"MPI_ABORT was invoked on rank 0 in communicator\n"], 1)
    ends([], 143)
    ends([b"ArithmeticError: of a rank, of which nobody says more\n"], 1)
    with pytest.raises(LaunchError, match="ended with code 213"):
        ends([b"PMIx detected a call to mkdir was unable to create the desired directory"], 213)


def test_a_killed_mpiexec_is_said(start: Start, tmp_path: Path) -> None:
    (tmp_path / "wait.py").write_text(
        "import time\nfrom phalanx.comm.launch.process import die_with_parent\n"
        "die_with_parent()\nprint('here', flush=True)\ntime.sleep(600)\n"
    )
    process = start("run", "-n", 2, sys.executable, "wait.py")
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["here\n"] * 2
    rank = rank_process(process.pid)
    mpiexec = int(Path(f"/proc/{rank}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(mpiexec, signal.SIGKILL)
    errors = end_of(process)[1]
    assert process.returncode == 137
    assert errors == "mpiexec was ended by signal 9; the job has been stopped\n"
    assert left_behind(tmp_path) == []
