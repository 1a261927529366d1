"""Where the ranks of an MPI job meet outside of MPI: a store that torch.distributed starts from.

Rank 0 keeps it. Which of a host's names and addresses the others can reach is for them to try.
"""

import fcntl
import socket
import struct
from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

from phalanx.comm.base import Communicator
from phalanx.comm.hosts import on_one_host
from phalanx.errors import LaunchError

_Store: Any = dist.TCPStore  # type: ignore[attr-defined]
_LOOPBACK = "127.0.0.1"
_SIOCGIFADDR = 0x8915  # Linux: the address of a network interface
_SECONDS = 5.0


def open_store(comm: Communicator) -> Any:
    """Collective. A store that all ranks share; it lives as long as rank 0 holds it."""
    addresses = _addresses(comm)
    kept = None
    if comm.rank == 0:
        kept = _Store(_LOOPBACK, 0, is_master=True, wait_for_workers=False)
    names, port = comm.broadcast_object((addresses, 0 if kept is None else kept.port))
    if kept is not None:
        return kept
    return _Store(_reachable(names, port), port, is_master=False, wait_for_workers=False)


def _addresses(comm: Communicator) -> list[str]:
    """Collective. By what this host may be reached."""
    if on_one_host(comm):
        return [_LOOPBACK]
    found = [socket.gethostname()]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            asked = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, asked)
            except OSError:  # an interface without an address
                continue
            found.append(socket.inet_ntoa(answer[20:24]))
    return [address for address in found if not address.startswith("127.")]


def _reachable(addresses: Sequence[str], port: int) -> str:
    for address in addresses:
        try:
            socket.create_connection((address, port), timeout=_SECONDS).close()
        except OSError:
            continue
        return address
    raise LaunchError(
        f"host {socket.gethostname()} reaches rank 0 at none of {', '.join(addresses)}, port "
        f"{port}: does a firewall close the ports between the hosts?"
    )
