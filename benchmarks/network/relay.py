"""A long link: a process that carries frames between two hosts and takes its time.

Kernels delay packets by `netem`, which many of them lack. This carries each frame of either host to
the other, through virtual network cards (TAP), at a rate and after a delay.
"""

import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.hosts.namespaces import LINK, PORT, connect, ip
from tests.hosts.network import Network

#: Linux's numbers for: make this a network card that takes frames as they are.
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_CLONE_NEWNET = 0x40000000
_LARGEST_FRAME = 1 << 16
#: Bytes of a packet: large, so that a process can carry as many as the link takes.
_MTU = 9000
#: Seconds that a frame may wait for those before it; more is dropped, as routers do it.
_LONGEST_QUEUE = 0.1


class Direction:
    """What goes from one card to the other."""

    def __init__(self, source: int, target: int, *, bits_per_second: float, delay: float) -> None:
        self._source, self._target = source, target
        self._seconds_per_byte, self._delay = 8 / bits_per_second, delay
        self._free = 0.0
        self._frames: deque[tuple[float, bytes]] = deque()

    def take(self, now: float) -> None:
        """Take what has come, and work out when it arrives."""
        while True:
            try:
                frame = os.read(self._source, _LARGEST_FRAME)
            except BlockingIOError:
                return
            begin = max(now, self._free)
            if begin - now <= _LONGEST_QUEUE:
                self._free = begin + len(frame) * self._seconds_per_byte
                self._frames.append((self._free + self._delay, frame))

    def give(self, now: float) -> None:
        """Give what is due to the other side."""
        while self._frames and self._frames[0][0] <= now:
            with suppress(OSError):  # a card that is down, or full
                os.write(self._target, self._frames.popleft()[1])

    @property
    def due(self) -> float | None:
        """When the next frame is to arrive."""
        return self._frames[0][0] if self._frames else None


@contextmanager
def carried(network: Network, *, bits_per_second: float, delay: float) -> Iterator[None]:
    """While inside, the two hosts of a network are joined by such a link; `delay` is one way."""
    first, second = network.hosts.values()
    ip(first, f"link delete {PORT}1")
    words = [str(first), str(second), str(bits_per_second), str(delay)]
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.network.relay", *words], stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            ip(first, f"link set {LINK} mtu {_MTU}")
            ip(first, f"link set {PORT}1 mtu {_MTU} master {LINK} up")
            ip(second, f"address add 10.99.0.2/24 dev {LINK}")
            ip(second, f"link set {LINK} mtu {_MTU} up")
            yield
        finally:
            process.kill()
            process.wait()
            connect(first, second, number=1)


def _card(host: int, name: str) -> int:
    """A new network card of a host, open to what the host sends through it."""
    with open(f"/proc/{host}/ns/net", "rb") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the network of process {host}")
    card = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(card, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TAP | _IFF_NO_PI))
    return card


def main() -> None:
    first, second, rate, delay = sys.argv[1:]
    near, far = _card(int(first), f"{PORT}1"), _card(int(second), LINK)
    print(flush=True)
    how = {"bits_per_second": float(rate), "delay": float(delay)}
    directions = {near: Direction(near, far, **how), far: Direction(far, near, **how)}
    while os.getppid() > 1:
        waits = [one.due for one in directions.values() if one.due is not None]
        pause = max(0.0, min(waits) - time.monotonic()) if waits else 1.0
        ready, _, _ = select.select([near, far], [], [], pause)
        for card in ready:
            directions[card].take(time.monotonic())
        for one in directions.values():
            one.give(time.monotonic())


if __name__ == "__main__":
    main()
