"""The network between hosts: its latency, its bandwidth, and what a sum over hosts takes on it."""

import math
import re
from dataclasses import dataclass

from phalanx.errors import UsageError

#: What is assumed where hosts cannot be measured and nobody says: 10 Gbit/s Ethernet.
USUAL = "10gbit,50us"

_BITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_NUMBER = r"(\d+(?:\.\d+)?)"
_FORM = re.compile(
    rf"{_NUMBER}\s*({'|'.join(_BITS)})(?:/s)?\s*,\s*{_NUMBER}\s*({'|'.join(_SECONDS)})"
)


@dataclass(frozen=True)
class Link:
    """What one host can send to another."""

    #: Bytes a second, in each direction.
    bandwidth: float
    #: Seconds from one program to the other, of an empty message.
    latency: float

    def __str__(self) -> str:
        bits, unit = self.bandwidth * 8, "bit"
        for name, size in _BITS.items():
            if bits >= size:
                unit, shown = f"{name[0].upper() if name != 'kbit' else 'k'}bit", bits / size
        micro = self.latency * 1e6
        wait = f"{micro:.3g} µs" if micro < 1000 else f"{micro / 1000:.3g} ms"
        return f"{shown:.3g} {unit}/s, {wait}" if bits >= 1e3 else f"{bits:.0f} bit/s, {wait}"

    def all_sum(self, count: float, *, hosts: int) -> float:
        """The seconds in which hosts add up so many bytes, by the faster of two ways that MPI has.

        Halving and doubling (as a ring) sends nearly two gradients whatever the number of hosts;
        recursive doubling sends one every round, and has half the rounds.
        """
        if hosts == 1:
            return 0.0
        rounds = math.ceil(math.log2(hosts))
        halving = 2 * rounds * self.latency + 2 * (hosts - 1) / hosts * count / self.bandwidth
        doubling = rounds * (self.latency + count / self.bandwidth)
        return min(halving, doubling)


def parse_link(text: str) -> Link:
    """The link that a user describes: `10gbit,50us`."""
    found = _FORM.fullmatch(text.strip().lower())
    if found is None:
        raise UsageError(
            f"--network {text}: takes a bandwidth and a latency, such as 10gbit,50us or 100mbit,1ms"
        )
    bits, seconds = float(found[1]) * _BITS[found[2]], float(found[3]) * _SECONDS[found[4]]
    if bits == 0:
        raise UsageError(f"--network {text}: nothing gets through a link of 0 bit/s")
    return Link(bits / 8, seconds)
