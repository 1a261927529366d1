"""`phalanx run`: any program on many ranks, and the end of all of them with one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import Phalanx, end_of, left_behind

Start = Callable[..., subprocess.Popen[str]]
#: Says what a rank was given, without any library.
SHOW = """
import json, os, sys
names = ("OMPI_COMM_WORLD_RANK", "OMP_NUM_THREADS", "MALLOC_TRIM_THRESHOLD_", "PHALANX_RANKS",
         "MY_OWN_SETTING")
cores = len(os.sched_getaffinity(0))
print(json.dumps([sys.argv[1:], {name: os.environ.get(name) for name in names}, cores]), flush=True)
"""
FAIL_ON_1 = """
import os, sys, time
if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
    {action}
time.sleep(600)
"""
WITH_PHALANX = """
import phalanx, torch
comm = phalanx.world()
if {condition}:
    raise RuntimeError("the seventh seal")
comm.allreduce(torch.ones(3))
"""
#: What `hvd.init` comes to, for the end of a job; without torch, for the time that takes.
INIT = """
from mpi4py import MPI
from phalanx.comm.launch.failure import end_job_on_uncaught_errors
end_job_on_uncaught_errors()
rank = MPI.COMM_WORLD.rank
"""
INIT_HOROVOD = """
import phalanx.horovod.torch as hvd
hvd.init()
rank = hvd.rank()
"""
EXIT_ON_1 = """
import sys, time
{init}
if rank == 1:
    {action}
time.sleep(600)
"""
EXIT_WELL = """
import sys, threading, torch
import phalanx.horovod.torch as hvd
hvd.init()
try:
    sys.exit(3)
except SystemExit as error:
    assert error.code == 3
thread = threading.Thread(target=sys.exit, args=(3,))
thread.start()
thread.join()
print(hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), flush=True)
sys.exit(0)
"""


def shown(done: subprocess.CompletedProcess[str]) -> list[tuple[list[str], dict[str, str], int]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_command_is_passed_on_untouched(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "show.py").write_text(SHOW)
    command = (sys.executable, "show.py", "-n", "7", "--help", "--", "a b", "*")
    ranks = shown(phalanx("run", "-n", 2, *command, OMP_NUM_THREADS="5"))
    assert [arguments for arguments, _, _ in ranks] == [["-n", "7", "--help", "--", "a b", "*"]] * 2
    assert sorted(one["OMPI_COMM_WORLD_RANK"] for _, one, _ in ranks) == ["0", "1"]
    for _, one, _ in ranks:
        assert one["OMP_NUM_THREADS"] == "5"  # the user's own
        assert one["PHALANX_RANKS"] == "2"
        assert one["MALLOC_TRIM_THRESHOLD_"] == str(1 << 30)


def test_hosts_and_threads(
    phalanx: Phalanx, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_OWN_SETTING", "with spaces; and more")
    (tmp_path / "show.py").write_text(SHOW)
    flags = ("-H", "localhost:3", "--threads", 2, "--no-bind", "-x", "MY_OWN_SETTING")
    ranks = shown(phalanx("run", *flags, sys.executable, "show.py"))
    assert [one["OMP_NUM_THREADS"] for _, one, _ in ranks] == ["2"] * 3  # one a slot
    assert {one["MY_OWN_SETTING"] for _, one, _ in ranks} == {"with spaces; and more"}
    assert {cores for _, _, cores in ranks} == {len(os.sched_getaffinity(0))}


@pytest.mark.parametrize(
    ("action", "code", "message"),
    [
        ("raise RuntimeError('the seventh seal')", 1, "rank 1 exited with code 1"),
        ("sys.exit(7)", 7, "rank 1 exited with code 7"),
        ("os.kill(os.getpid(), 9)", 137, "rank 1 was ended by signal 9"),
    ],
)
def test_a_rank_that_fails_ends_the_job(
    phalanx: Phalanx, tmp_path: Path, action: str, code: int, message: str
) -> None:
    """A script that knows nothing of Phalanx."""
    (tmp_path / "fail.py").write_text(FAIL_ON_1.format(action=action))
    done = phalanx("run", "-n", 2, sys.executable, "fail.py")
    assert done.returncode == code
    assert f"{message}" in done.stderr
    assert "the job has been stopped" in done.stderr
    assert done.stderr.count("Traceback") == ("raise" in action)
    assert "-----" not in done.stderr
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("condition", ["comm.rank == 1", "True"], ids=["rank 1", "all ranks"])
def test_a_script_with_phalanx_fails_with_one_traceback(
    phalanx: Phalanx, tmp_path: Path, condition: str
) -> None:
    (tmp_path / "fail.py").write_text(WITH_PHALANX.format(condition=condition))
    done = phalanx("run", "-n", 2, sys.executable, "fail.py")
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1, done.stderr
    assert "the seventh seal" in done.stderr
    assert "MPI_ABORT" not in done.stderr
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    ("init", "action", "code", "printed"),
    [
        (INIT_HOROVOD, "raise SystemExit(3)", 3, ""),
        (INIT, "exit(3)", 3, ""),
        (INIT, "sys.exit('no such file')", 1, "no such file\n"),
        (INIT, "sys.exit(-1)", 255, ""),
    ],
    ids=["horovod", "exit", "text", "negative"],
)
def test_a_rank_that_exits_ends_the_job(
    phalanx: Phalanx, tmp_path: Path, init: str, action: str, code: int, printed: str
) -> None:
    """At once, although the other one is busy and hears of nothing."""
    (tmp_path / "fail.py").write_text(EXIT_ON_1.format(init=init, action=action))
    done = phalanx("run", "-n", 2, sys.executable, "fail.py")
    assert done.returncode == code, done.stderr
    assert done.stderr == f"{printed}rank 1 exited with code {code}; the job has been stopped\n"
    assert left_behind(tmp_path) == []


def test_exits_that_are_no_failure(phalanx: Phalanx, tmp_path: Path) -> None:
    """Caught, of a thread, or successful: the job goes on, and to a good end."""
    (tmp_path / "exit.py").write_text(EXIT_WELL)
    done = phalanx("run", "-n", 2, sys.executable, "exit.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "2.0\n" * 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_every_rank(start: Start, tmp_path: Path, number: int, code: int) -> None:
    (tmp_path / "wait.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(600)\n")
    process = start("run", "-n", 2, sys.executable, "wait.py")
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["here\n"] * 2
    process.send_signal(number)
    end_of(process)
    assert process.returncode == code
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((sys.executable, "nothing.py"), "there is no script 'nothing.py'"),
        (("nothing",), "there is no program 'nothing'"),
        (("./script.py",), "try `python ./script.py`"),
        (("-n", 0, "true"), "at least 1, not 0"),
        (("--threads", 0, "true"), "--threads must be from 1 to below 4096, not 0"),
        (("-H", "a:b", "true"), "'a:b' is no host:slots"),
        (("-H", "a:2,b", "-n", 4, "true"), "4 ranks do not fit in the 3 slots"),
        (("-H", "a:2000", "true"), "no host takes more than 1024 ranks"),
        (("-n", 100000, "true"), "100000 ranks for"),
        (("-x", "2=3", "true"), "'2' is no name of a variable"),
        (("-x", "NOT_SET_HERE", "true"), "it is not set here"),
        ((), "Missing argument"),
    ],
)
def test_refusals(
    phalanx: Phalanx, tmp_path: Path, arguments: tuple[object, ...], message: str
) -> None:
    (tmp_path / "script.py").write_text("")
    done = phalanx("run", *arguments)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split()), done.stderr
    assert "Traceback" not in done.stderr


def test_not_inside_of_a_job(phalanx: Phalanx) -> None:
    job = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}
    done = phalanx("run", "true", **job)
    assert done.returncode == 3
    assert "this is one of them already" in done.stderr
