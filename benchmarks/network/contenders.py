"""Who takes part between hosts: DDP as it comes and with its hooks, and ours."""

import json
from dataclasses import dataclass, field, replace

from tests.hosts.namespaces import FIRST_ADDRESS, LINK

#: What all others are compared with.
REFERENCE = "DDP"
#: Ranks that compute as ours do, and exchange nothing.
UNCONNECTED = "compute alone"

_GLOO = {"GLOO_SOCKET_IFNAME": LINK, "MASTER_ADDR": FIRST_ADDRESS, "MASTER_PORT": "29517"}


@dataclass(frozen=True)
class Contender:
    """A row of the tables: a module, its arguments, and variables of its ranks' environment."""

    name: str
    arguments: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    #: Whether it trains what one rank trains, up to rounding.
    exact: bool = False
    #: Steps of an epoch, where those of the others are too few for all that it does now and then.
    steps: int | None = None


def _ddp(name: str, *arguments: str, exact: bool = False) -> Contender:
    return Contender(name, ("benchmarks.peers.ddp", *arguments), _GLOO, exact)


def _ours(name: str, strategy: str, *, exact: bool = False, **options: object) -> Contender:
    words = ("--strategy", strategy, "--options", json.dumps(options))
    return Contender(f"phalanx {name}", ("benchmarks.ours", *words), exact=exact)


def _local(every: int, *, steps: int) -> Contender:
    """With DiLoCo's outer optimizer, in pieces of 8 bits while training goes on."""
    ours = _ours(
        f"local {every}",
        "local",
        every=every,
        pieces=4,
        compress="int8",
        outer_rate=0.7,
        outer_momentum=0.9,
        outer_nesterov=True,
    )
    return replace(ours, steps=steps)


_ALL = (
    Contender(UNCONNECTED, ("benchmarks.ours", "--unconnected")),
    _ddp(REFERENCE, exact=True),
    _ddp("DDP fp16", "--hook", "fp16"),
    _ddp("DDP PowerSGD 2", "--hook", "powersgd", "--rank", "2"),
    _ddp("DDP PowerSGD 4", "--hook", "powersgd", "--rank", "4"),
    _ours("central", "central", exact=True),
    _ours("central, no overlap", "central", exact=True, overlap=False),
    _ours("allreduce", "allreduce", exact=True),
    _ours("bf16", "central", compress="bf16"),
    _ours("fp16", "central", compress="fp16"),
    _ours("int8", "central", compress="int8"),
    _ours("low-rank 2", "central", compress="low-rank"),
    _ours("low-rank 4", "central", compress="low-rank", compress_rank=4),
    _local(32, steps=32),
    _local(128, steps=512),
)
CONTENDERS = {contender.name: contender for contender in _ALL}
