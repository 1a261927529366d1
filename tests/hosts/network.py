"""Real hosts on one machine: network namespaces on a common bridge, each with its own host name.

Open MPI takes them for different machines and talks TCP between them. The namespaces have no names:
a process keeps each of them in being until its standard input closes, so when the tests end, in
whatever way, the kernel takes hosts, links and addresses away. Nothing outside of them is touched.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from phalanx.comm.launch.mpiexec import find_mpiexec
from phalanx.errors import LaunchError
from tests.commands import PATIENCE, environment
from tests.hosts.namespaces import (
    LINK,
    PATH,
    PORT,
    NoHostsError,
    connect_all,
    enter,
    home_of,
    ip,
    run_tool,
    start_host,
)

ROOT = Path(__file__).parents[2]
#: Only a safety net: a job whose ranks wait for each other in vain reports so itself, before.
_LONGEST = 240


class Network:
    """Some hosts, and jobs on them."""

    def __init__(self, hosts: dict[str, int], folder: Path) -> None:
        self.hosts = hosts
        self._folder = folder
        self.names = list(hosts)

    def run(
        self,
        slots: Sequence[int],
        *arguments: str,
        by: str = "slot",
        seconds: float = _LONGEST,
        **extra: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run this Python on so many ranks of each host, placed slot `by` slot or node by node.

        `extra`: variables of their environment.
        """
        variables = environment() | {
            "PATH": PATH,
            "TMPDIR": str(self._folder),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_mpi_yield_when_idle": "1",  # more ranks than cores
            **extra,
        }
        mpiexec = [str(find_mpiexec()), *self._options(), "--host", self._places(slots)]
        where = ["-n", str(sum(slots)), "--map-by", by, "--bind-to", "none"]
        where += [word for name in extra for word in ("-x", name)]
        # Entering a user namespace would clear a death signal that was set before.
        end = ["setpriv", "--pdeathsig", "TERM"]
        before = [*enter(self.hosts[self.names[0]], "--net", "--uts"), *end]
        return subprocess.run(
            [*before, *mpiexec, *where, sys.executable, *arguments],
            cwd=ROOT,
            env={key: one for key, one in variables.items() if not key.startswith("SLURM_")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            start_new_session=True,
        )

    @contextmanager
    def started(
        self, slots: Sequence[int], *command: str, folder: Path
    ) -> "Iterator[subprocess.Popen[bytes]]":
        """`phalanx run` of a command on so many ranks of each host, which may lose some of them.

        What it says is in the file `output`: what is left on a host that is cut off keeps a pipe.
        """
        places = self._places(slots)
        run = ["phalanx", "run", "--min-np", "1", "-H", places, "-n", str(sum(slots)), *command]
        with (
            (folder / "output").open("wb") as output,
            subprocess.Popen(
                [*enter(self.hosts[self.names[0]], "--net", "--uts"), *run],
                cwd=folder,
                env=self._variables(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()
                self.clear()

    def _places(self, slots: Sequence[int]) -> str:
        names = self.names[: len(slots)]
        return ",".join(f"{name}:{count}" for name, count in zip(names, slots, strict=True))

    def on_first(self, *command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
        """A command on the first host, from where `mpiexec` and `phalanx run` reach the others."""
        return subprocess.run(
            [*enter(self.hosts[self.names[0]], "--net", "--uts"), *command],
            cwd=folder,
            env=self._variables(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LONGEST,
            check=False,
        )

    def _variables(self) -> dict[str, str]:
        """The environment in which the first host's launcher reaches the others."""
        settings = {f"PRTE_MCA_{name}": value for name, value in self._settings().items()}
        ours = {
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), PATH)),
            "TMPDIR": str(self._folder),
            "OMPI_MCA_btl_tcp_if_include": LINK,
            "PYTHONUNBUFFERED": "1",
        }
        return environment() | settings | ours

    @contextmanager
    def cut_off(self, number: int) -> Iterator[None]:
        """While inside, nothing reaches this host, and nothing comes from it."""
        host = self.hosts[self.names[number]]
        ip(host, f"link set {LINK} down")
        try:
            yield
        finally:
            ip(host, f"link set {LINK} up")

    def shape(self, rules: Sequence[str]) -> None:
        """Have what every host sends to the others go by these rules of `tc qdisc`, and no more."""
        first, *others = self.hosts.values()
        ports = [(first, f"{PORT}{number}") for number in range(1, len(others) + 1)]
        for host, device in [*ports, *((other, LINK) for other in others)]:
            tc = [*enter(host, "--net"), "tc", "qdisc"]
            with suppress(NoHostsError):  # there is none to begin with
                run_tool([*tc, "delete", "dev", device, "root"])
            for rule in rules:
                run_tool([*tc, "add", "dev", device, *rule.split()])

    def _options(self) -> list[str]:
        """How Open MPI's launcher reaches the hosts, and what its ranks talk over."""
        # The launcher quotes nothing that it has a remote shell run: a path with spaces in it
        # must not get there.
        prefix = self._folder / "prefix"
        if not prefix.exists():
            prefix.symlink_to(find_mpiexec().resolve().parents[1])
        launcher = [word for item in self._settings().items() for word in ("--prtemca", *item)]
        return [*launcher, "--mca", "btl_tcp_if_include", LINK, "--prefix", str(prefix)]

    def _settings(self) -> dict[str, str]:
        """The launcher's part of that."""
        agent = self._folder / "agent"
        cases = "".join(f"{name}) host={process};; " for name, process in self.hosts.items())
        agent.write_text(
            f'#!/bin/sh\ncase "$1" in {cases}esac\nshift\n'
            'exec nsenter --target "$host" --net --uts -- sh -c "$*"\n'
        )
        agent.chmod(0o700)
        return {"plm": "ssh", "plm_ssh_agent": str(agent), "prte_if_include": LINK}

    def processes(self) -> list[int]:
        """All processes on these hosts, apart from those that keep the hosts in being."""
        homes = {home_of(process) for process in self.hosts.values()}
        homes -= {None, home_of(os.getpid())}  # never the machine itself: `clear` kills
        everyone = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [one for one in everyone if home_of(one) in homes and one not in self.hosts.values()]

    def wait_until_idle(self, *, seconds: float = PATIENCE) -> list[int]:
        """The processes that are still on these hosts after so long."""
        deadline = time.monotonic() + seconds
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.processes()

    def clear(self) -> None:
        """End whatever is left running on the hosts, and remove what Open MPI then leaves."""
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for name in self.names:
            for path in Path("/dev/shm").glob(f"*{name}*"):
                path.unlink(missing_ok=True)


@contextmanager
def network(count: int) -> Iterator[Network]:
    """So many hosts for as long as the block lasts; NoHostsError where they cannot be made."""
    _check_tools()
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(TemporaryDirectory(prefix="hosts-", ignore_cleanup_errors=True))
        )
        hosts: dict[str, int] = {}
        for number in range(count):
            name = f"h{os.getpid()}{chr(ord('a') + number)}"
            hosts[name] = start_host(stack, name, beside=next(iter(hosts.values()), None))
        connect_all(list(hosts.values()))
        made = Network(hosts, folder)
        stack.callback(made.clear)
        yield made


def _check_tools() -> None:
    missing = [
        name
        for name in ("ip", "unshare", "nsenter", "setpriv")
        if not shutil.which(name, path=PATH)
    ]
    if missing:
        raise NoHostsError(f"no {', '.join(missing)} here (iproute2 and util-linux have them)")
    try:
        version = run_tool([str(find_mpiexec()), "--version"])
    except LaunchError as error:
        raise NoHostsError(str(error)) from error
    if "Open MPI) 5" not in version:
        raise NoHostsError("the way to start ranks on these hosts is that of Open MPI 5")
