"""Who trains a model that is cut over the ranks: torch's own ways, and ours beside them."""

from benchmarks.contenders import ALLOCATOR, BASELINE, DTENSOR, PIPELINING, Contender
from benchmarks.launchers import mpiexec, plain, torchrun
from benchmarks.workloads import IN_PARTS

#: What each strategy of ours is compared with, and the module that it is in.
PEERS = {
    "pipeline": (PIPELINING, "benchmarks.peers.pipelining"),
    "tensor": (DTENSOR, "benchmarks.peers.dtensor"),
}


def contenders(ranks: int) -> list[Contender]:
    """For each strategy torch's own, as it comes and tuned, and ours; all of them on one core."""
    everything = tuple(IN_PARTS)
    rows = [
        Contender("torch, 1 thread", plain("benchmarks.peers.plain", threads=1), only=everything),
        Contender(BASELINE, plain("benchmarks.ours", threads=1), only=everything),
    ]
    for strategy, (peer, module) in PEERS.items():
        only = tuple(name for name, one in IN_PARTS.items() if one.strategy == strategy)
        tuned = torchrun(ranks, module, environment=ALLOCATOR).with_arguments("--tuned")
        ours = mpiexec(ranks, "benchmarks.ours").with_arguments("--strategy", strategy)
        rows += [
            Contender(peer, torchrun(ranks, module), ranks=ranks, only=only),
            Contender(f"{peer} tuned", tuned, ranks=ranks, only=only),
            Contender(
                f"{peer} tuned, bound", tuned.with_arguments("--bound"), ranks=ranks, only=only
            ),
            Contender(f"phalanx {strategy}", ours, ranks=ranks, only=only),
        ]
    return rows
