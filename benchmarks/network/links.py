"""Links between hosts of several speeds, by the kernel's traffic control, or carried."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.network.relay import carried
from tests.hosts.network import Network


@dataclass(frozen=True)
class Link:
    """What every host can send at a time, and how long it is under way there and back."""

    name: str
    bits_per_second: float
    round_trip_ms: int = 0

    @property
    def bytes_per_second(self) -> float:
        return self.bits_per_second / 8

    @property
    def title(self) -> str:
        """10 Gbit/s; 100 Mbit/s with 20 ms."""
        rate, unit = self.bits_per_second / 1e6, "Mbit/s"
        if rate >= 1000:
            rate, unit = rate / 1000, "Gbit/s"
        delay = f" with {self.round_trip_ms} ms there and back" if self.round_trip_ms else ""
        return f"{rate:g} {unit}{delay}"


_ALL = (
    Link("10gbit", 10e9),
    Link("1gbit", 1e9),
    Link("100mbit", 100e6),
    Link("100mbit-20ms", 100e6, round_trip_ms=20),
)
LINKS = {link.name: link for link in _ALL}


@contextmanager
def shaped(network: Network, link: Link) -> Iterator[None]:
    """While inside, all hosts are joined by such links."""
    if link.round_trip_ms:
        delay = link.round_trip_ms / 2000
        with carried(network, bits_per_second=link.bits_per_second, delay=delay):
            yield
        return
    rate = f"{link.bits_per_second / 1e6:g}mbit"
    # A token bucket of some packets: less, and a fast link is never used up; more, and a slow one
    # sends small messages at the speed of memory.
    burst = int(max(link.bytes_per_second / 1000, 128 << 10))
    network.shape([f"root handle 1: tbf rate {rate} burst {burst} latency 100ms"])
    yield
