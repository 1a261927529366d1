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
from tests.commands import environment

ROOT = Path(__file__).parents[2]
_LINK = "link0"  # what every host calls its way to the others
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
#: A host: takes its name, says that it is there, and lasts until nobody listens any more.
_HOST = "import socket, sys; socket.sethostname(sys.argv[1]); print(flush=True); sys.stdin.read()"
#: Only a safety net: a job whose ranks wait for each other in vain reports so itself, before.
_LONGEST = 240


class NoHostsError(Exception):
    """This machine does not let us make hosts; says why."""


class Network:
    """Some hosts, and jobs on them."""

    def __init__(self, hosts: dict[str, int], folder: Path) -> None:
        self._hosts = hosts
        self._folder = folder
        self.names = list(hosts)

    def run(
        self, slots: Sequence[int], *arguments: str, by: str = "slot"
    ) -> subprocess.CompletedProcess[str]:
        """Run this Python on so many ranks of each host, placed slot `by` slot or node by node."""
        names = self.names[: len(slots)]
        places = ",".join(f"{name}:{count}" for name, count in zip(names, slots, strict=True))
        variables = environment() | {
            "PATH": _PATH,
            "TMPDIR": str(self._folder),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_mpi_yield_when_idle": "1",  # more ranks than cores
        }
        mpiexec = [str(find_mpiexec()), *self._options(), "--host", places]
        where = ["-n", str(sum(slots)), "--map-by", by, "--bind-to", "none"]
        # Entering a user namespace would clear a death signal that was set before.
        end = ["setpriv", "--pdeathsig", "TERM"]
        return subprocess.run(
            [
                *_enter(self._hosts[names[0]], "--net", "--uts"),
                *end,
                *mpiexec,
                *where,
                sys.executable,
                *arguments,
            ],
            cwd=ROOT,
            env={key: one for key, one in variables.items() if not key.startswith("SLURM_")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LONGEST,
            check=False,
            start_new_session=True,
        )

    def _options(self) -> list[str]:
        """How Open MPI's launcher reaches the hosts, and what its ranks talk over."""
        agent = self._folder / "agent"
        cases = "".join(f"{name}) host={process};; " for name, process in self._hosts.items())
        agent.write_text(
            f'#!/bin/sh\ncase "$1" in {cases}esac\nshift\n'
            'exec nsenter --target "$host" --net --uts -- sh -c "$*"\n'
        )
        agent.chmod(0o700)
        # The launcher quotes nothing that it has a remote shell run: a path with spaces in it
        # must not get there.
        prefix = self._folder / "prefix"
        if not prefix.exists():
            prefix.symlink_to(find_mpiexec().resolve().parents[1])
        settings = {"plm": "ssh", "plm_ssh_agent": str(agent), "prte_if_include": _LINK}
        launcher = [word for item in settings.items() for word in ("--prtemca", *item)]
        return [*launcher, "--mca", "btl_tcp_if_include", _LINK, "--prefix", str(prefix)]

    def processes(self) -> list[int]:
        """All processes on these hosts, apart from those that keep the hosts in being."""
        homes = {_home(process) for process in self._hosts.values()}
        homes -= {None, _home(os.getpid())}  # never the machine itself: `clear` kills
        everyone = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [one for one in everyone if _home(one) in homes and one not in self._hosts.values()]

    def wait_until_idle(self, *, seconds: float = 10) -> list[int]:
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
            hosts[name] = _host(stack, name, beside=next(iter(hosts.values()), None))
        _connect(list(hosts.values()))
        made = Network(hosts, folder)
        stack.callback(made.clear)
        yield made


def _check_tools() -> None:
    missing = [
        name
        for name in ("ip", "unshare", "nsenter", "setpriv")
        if not shutil.which(name, path=_PATH)
    ]
    if missing:
        raise NoHostsError(f"no {', '.join(missing)} here (iproute2 and util-linux have them)")
    try:
        version = _run([str(find_mpiexec()), "--version"])
    except LaunchError as error:
        raise NoHostsError(str(error)) from error
    if "Open MPI) 5" not in version:
        raise NoHostsError("the way to start ranks on these hosts is that of Open MPI 5")


def _host(stack: ExitStack, name: str, *, beside: int | None) -> int:
    """Start a host; the process that keeps it in being.

    Who is not root makes a user namespace to be root in, the same one for all hosts.
    """
    before, user = [], []
    if os.geteuid() != 0:
        before = [] if beside is None else _enter(beside)
        user = ["--user", "--map-root-user"] if beside is None else []
    process = stack.enter_context(
        subprocess.Popen(
            [*before, "unshare", *user, "--net", "--uts", sys.executable, "-c", _HOST, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a Ctrl-C is for the tests, which then end the hosts
        )
    )
    assert process.stdout is not None
    assert process.stderr is not None
    if not process.stdout.readline():
        raise NoHostsError(f"no permission to make a host: {process.stderr.read().strip()}")
    return process.pid


def _connect(hosts: Sequence[int]) -> None:
    """Join the hosts by a bridge in the first of them."""
    first, *others = hosts
    _ip(first, f"link add {_LINK} type bridge")
    for number, host in enumerate(others, 1):
        _ip(first, f"link add port{number} type veth peer name {_LINK} netns {host}")
        _ip(first, f"link set port{number} master {_LINK} up")
    for number, host in enumerate(hosts, 1):
        _ip(host, f"address add 10.99.0.{number}/24 dev {_LINK}")
        _ip(host, f"link set {_LINK} up")
        _ip(host, "link set lo up")


def _ip(host: int, command: str) -> None:
    _run([*_enter(host, "--net"), "ip", *command.split()])


def _enter(host: int, *namespaces: str) -> list[str]:
    user = ["--user", "--preserve-credentials"] if os.geteuid() != 0 else []
    return ["nsenter", "--target", str(host), *user, *namespaces, "--"]


def _run(command: list[str]) -> str:
    done = subprocess.run(
        command, env=os.environ | {"PATH": _PATH}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NoHostsError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _home(process: int) -> str | None:
    """The network namespace that a process lives in; None if it is gone, or not ours to know."""
    try:
        return os.readlink(f"/proc/{process}/ns/net")
    except OSError:
        return None
