"""The flags of horovodrun, which `phalanx run` takes with the same effect or refuses by name."""

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.app import app
from phalanx.cli.flags.horovodrun import hosts_in
from phalanx.errors import UsageError
from tests.commands import Phalanx

SHOW = """
import os
for name in sorted(os.environ):
    if name.startswith(("HOROVOD_", "OMPI_MCA_btl", "OMPI_MCA_pml", "PYTHONPATH")):
        print(name, os.environ[name])
"""
#: A line of horovodrun, and what ranks find.
LINE = """
-np 1 --fusion-threshold-mb 32 --cycle-time-ms 3.5 --timeline-filename time.json --mpi --tcp
--timeline-mark-cycles --stall-check --stall-check-warning-time-seconds 5 --disable-cache --verbose
--stall-check-shutdown-time-seconds 30 --no-autotune --no-hierarchical-allreduce
"""


def test_what_ranks_find(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "show.py").write_text(SHOW)
    done = phalanx("run", "--horovod", *LINE.split(), sys.executable, "show.py")
    assert done.returncode == 0, done.stderr
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert found.pop("PYTHONPATH").split(":")[0].endswith("phalanx/horovod/python_path")
    assert found == {
        "HOROVOD_FUSION_THRESHOLD": str(32 << 20),
        "HOROVOD_CYCLE_TIME": "3.5",
        "HOROVOD_TIMELINE": "time.json",
        "HOROVOD_TIMELINE_MARK_CYCLES": "1",
        "HOROVOD_STALL_CHECK_DISABLE": "0",
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "5",
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "30",
        "OMPI_MCA_btl": "self,tcp",
        "OMPI_MCA_pml": "ob1",
    }
    command = shlex.split(done.stderr)  # of --verbose
    assert (Path(command[0]).name, command[1:3]) == ("mpiexec", ["-n", "1"])
    assert command[-2:] == [sys.executable, "show.py"]


def test_a_file_of_hosts(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("# ours\nlocalhost slots=1  # one\n\n")
    (tmp_path / "show.py").write_text("import os; print(os.environ['OMPI_COMM_WORLD_SIZE'])\n")
    done = phalanx("run", "--hostfile", "hosts", "--num-proc", 1, sys.executable, "show.py")
    assert (done.returncode, done.stdout) == (0, "1\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no host"),
        ("a slots=x", r"'a slots=x' is no `name slots=N`"),
        ("a 4", "'a 4' is no"),
        ("a slots=4 max_slots=8", "'a slots=4 max_slots=8' is no"),
        (None, "cannot be read"),
    ],
)
def test_bad_files_of_hosts(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "hosts"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError, match=message):
        hosts_in(file)


def test_hosts_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("a slots=4\nb\nc slots=2 # more\n")
    assert hosts_in(file) == "a:4,b:1,c:2"


def test_how_other_hosts_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a shell and over interfaces of Open MPI's choice, which it is told."""
    told: dict[str, str] = {}

    def launch(ranks: int, command: list[str], **options: Any) -> int:
        told.update(options["exports"])
        return 0

    monkeypatch.setattr("phalanx.cli.run.launch", launch)
    flags = ["-p", "2222", "-i", "key", "--network-interface", "eth0"]
    app(["run", *flags, "--network-interfaces", "ib0,ib1", "true"], standalone_mode=False)
    assert told["PRTE_MCA_plm_ssh_agent"] == told["OMPI_MCA_plm_rsh_agent"] == "ssh -p 2222 -i key"
    for name in ("PRTE_MCA_prte", "OMPI_MCA_oob_tcp", "OMPI_MCA_btl_tcp"):
        assert told[f"{name}_if_include"] == "eth0,ib0,ib1"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--gloo",), "--gloo of horovodrun is not for `phalanx run`: everything goes over MPI"),
        (("--max-num-proc", 3), "--max-np goes with --min-np"),
        (("--blacklist-cooldown-range", 60, 300), "ranks can be lost (--min-np), but none are"),
        (("--autotune",), "there is nothing to tune"),
        (("--hierarchical-allreduce",), "leave it out"),
        (("--mpi-args", "--map-by ppr:6:node"), "by environment variables"),
        (("--log-level", "DEBUG"), "there is no log"),
        (("-prefix-timestamp",), "pipe it through `ts`"),
        (("-H", "a:1", "--hostfile", "hosts"), "--hosts and --hostfile say the same thing"),
        (("--horovod", "python", "-I", "train.py"), "PYTHONPATH, which -I has Python ignore"),
        (("--no-such-flag",), "No such option"),
    ],
)
def test_refusals(
    phalanx: Phalanx, tmp_path: Path, flags: tuple[object, ...], message: str
) -> None:
    (tmp_path / "hosts").write_text("a slots=1\n")
    done = phalanx("run", *flags, "true")
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split()), done.stderr


def test_what_there_is(phalanx: Phalanx) -> None:
    done = phalanx("run", "-cb")
    assert done.returncode == 0
    assert "[X] PyTorch" in done.stdout
    assert "[ ] Gloo" in done.stdout
