"""Hosts on one machine as the kernel makes them: namespaces, with links between them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack

#: What every host calls its way to the others, and where the first one is.
LINK = "link0"
FIRST_ADDRESS = "10.99.0.1"
#: What the first host calls its ways to the others, with a number behind it.
PORT = "port"
PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
#: A host: takes its name, says that it is there, and lasts until nobody listens any more.
_HOST = "import socket, sys; socket.sethostname(sys.argv[1]); print(flush=True); sys.stdin.read()"


class NoHostsError(Exception):
    """This machine does not let us make hosts; says why."""


def start_host(stack: ExitStack, name: str, *, beside: int | None) -> int:
    """Start a host; the process that keeps it in being.

    Who is not root makes a user namespace to be root in, the same one for all hosts.
    """
    before, user = [], []
    if os.geteuid() != 0:
        before = [] if beside is None else enter(beside)
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


def connect_all(hosts: Sequence[int]) -> None:
    """Join the hosts by a bridge in the first of them."""
    first, *others = hosts
    ip(first, f"link add {LINK} type bridge")
    ip(first, f"address add {FIRST_ADDRESS}/24 dev {LINK}")
    ip(first, f"link set {LINK} up")
    for number, host in enumerate(others, 1):
        connect(first, host, number=number)
    for host in hosts:
        ip(host, "link set lo up")


def connect(first: int, host: int, *, number: int) -> None:
    """Join another host to the first one's bridge."""
    ip(first, f"link add {PORT}{number} type veth peer name {LINK} netns {host}")
    ip(first, f"link set {PORT}{number} master {LINK} up")
    ip(host, f"address add 10.99.0.{number + 1}/24 dev {LINK}")
    ip(host, f"link set {LINK} up")


def ip(host: int, command: str) -> None:
    run_tool([*enter(host, "--net"), "ip", *command.split()])


def enter(host: int, *namespaces: str) -> list[str]:
    user = ["--user", "--preserve-credentials"] if os.geteuid() != 0 else []
    return ["nsenter", "--target", str(host), *user, *namespaces, "--"]


def run_tool(command: list[str]) -> str:
    done = subprocess.run(
        command, env=os.environ | {"PATH": PATH}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NoHostsError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def home_of(process: int) -> str | None:
    """The network namespace that a process lives in; None if it is gone, or not ours to know."""
    try:
        return os.readlink(f"/proc/{process}/ns/net")
    except OSError:
        return None
