"""Where the ranks of an MPI job meet outside of MPI: a store that torch.distributed starts from.

Rank 0 keeps it, and listens at one address: that of this host alone if all ranks are here, else one
that all ranks reach. torch's store asks nobody who they are, so between hosts the network is to be
one that no strangers are in, as it has to be for MPI and NCCL.
"""

import fcntl
import socket
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import torch.distributed as dist

from phalanx.comm.base import Communicator
from phalanx.comm.hosts import on_one_host
from phalanx.errors import LaunchError

_Store: Any = dist.TCPStore  # type: ignore[attr-defined]
_LOOPBACK = "127.0.0.1"
_SIOCGIFADDR = 0x8915  # Linux: the address of a network interface
_GLOBAL = "00"  # Linux: the scope of an IPv6 address that other hosts can use
_SECONDS = 5.0
#: A rank that fails ends the job; until then the others wait, as under MPI.
PATIENCE = timedelta(days=30)


def open_store(comm: Communicator) -> Any:
    """Collective. A store that all ranks share; it lives as long as rank 0 holds it."""
    address = _LOOPBACK if on_one_host(comm) else _reached_by_all(comm, _addresses())
    kept, port = None, 0
    if comm.rank == 0:
        # Left to itself, torch listens at all addresses of the host.
        listening = _listen(address)
        port = listening.getsockname()[1]
        kept = _Store(
            address,
            port,
            is_master=True,
            wait_for_workers=False,
            timeout=PATIENCE,
            master_listen_fd=listening.detach(),
        )
    port = comm.broadcast_object(port)
    if kept is not None:
        return kept
    return _Store(address, port, is_master=False, wait_for_workers=False, timeout=PATIENCE)


def _listen(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, 0), family=family)


def _addresses() -> list[str]:
    """By what this host may be reached from others."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            asked = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, asked)
            except OSError:  # an interface without an address
                continue
            found.append(socket.inet_ntoa(answer[20:24]))
    try:
        lines = Path("/proc/net/if_inet6").read_text().split("\n")
    except OSError:  # a kernel without IPv6
        lines = []
    found += [
        str(ip_address(int(fields[0], 16).to_bytes(16, "big")))
        for fields in map(str.split, filter(None, lines))
        if fields[3] == _GLOBAL
    ]
    return [address for address in found if not ip_address(address).is_loopback]


def _reached_by_all(comm: Communicator, own: Sequence[str]) -> str:
    """Collective. The first address of rank 0's host that every rank reaches."""
    with ExitStack() as stack:
        probes = []
        for address in own if comm.rank == 0 else ():
            with suppress(OSError):  # one that is about to go
                probes.append((address, stack.enter_context(_listen(address))))
        places = [(address, probe.getsockname()[1]) for address, probe in probes]
        places = comm.broadcast_object(places)
        with ThreadPoolExecutor(len(places) or 1) as pool:
            reached = list(pool.map(_reaches, places))
        everyone = comm.allgather_objects(reached)
    for index, (address, _) in enumerate(places):
        if all(one[index] for one in everyone):
            return address
    host = comm.broadcast_object(socket.gethostname())
    named = ", ".join(address for address, _ in places) or "it has none"
    raise LaunchError(
        f"no address of host {host} ({named}) is reached by all ranks: does a firewall close the "
        "ports between the hosts?"
    )


def _reaches(place: tuple[str, int]) -> bool:
    try:
        socket.create_connection(place, timeout=_SECONDS).close()
    except OSError:
        return False
    return True
