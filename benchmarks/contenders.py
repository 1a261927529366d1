"""Who takes part: the peers, and ours beside them."""

from dataclasses import dataclass
from importlib.util import find_spec

from benchmarks.launchers import Command, mpiexec, phalanx_run, plain, torchrun
from phalanx.strategies.registry import STRATEGIES

#: What all others are compared with.
REFERENCE = "DDP"
BASELINE = "phalanx single, 1 thread"
#: What those that cut a model over ranks are compared with.
PIPELINING, DTENSOR = "pipelining", "DTensor"

#: Strategies that compute what `single` computes; those there are not yet are left out.
_STRATEGIES = ("allreduce", "central")

#: What `phalanx` has glibc's allocator do, in the words of its environment variables.
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
}


@dataclass(frozen=True)
class Contender:
    """A row of the tables."""

    name: str
    command: Command
    ranks: int = 1
    threads: int = 1
    #: The package that must be there, if it may be missing.
    needs: str | None = None
    #: The workloads it can do, if not all.
    only: tuple[str, ...] | None = None

    @property
    def missing(self) -> bool:
        return self.needs is not None and find_spec(self.needs) is None

    def does(self, workload: str) -> bool:
        """Whether it can train this one."""
        return self.only is None or workload in self.only

    @property
    def in_ratios(self) -> bool:
        """Whether the first table is made of it: of torch's own in all its forms, and of ours."""
        ours = self.name.startswith("phalanx") and self.ranks > 1
        peer = self.name.startswith((REFERENCE, PIPELINING, DTENSOR))
        return ours or peer or self.name == BASELINE

    @property
    def uses_one_core(self) -> bool:
        return self.ranks * self.threads == 1


def contenders(ranks: int) -> list[Contender]:
    """Everybody, at one core and at so many."""
    return [*_plain(ranks), *_parallel_peers(ranks), *_ours(ranks)]


def _plain(cores: int) -> list[Contender]:
    module = "benchmarks.peers.plain"
    tuned = plain(module, threads=1, environment=ALLOCATOR).with_arguments("--tuned")
    return [
        Contender("torch, 1 thread", plain(module, threads=1)),
        Contender("torch tuned, 1 thread", tuned),
        Contender(f"torch, {cores} threads", plain(module, threads=cores), threads=cores),
    ]


def _parallel_peers(ranks: int) -> list[Contender]:
    ddp = "benchmarks.peers.ddp"
    tuned = torchrun(ranks, ddp, environment=ALLOCATOR).with_arguments("--tuned")
    accelerate = torchrun(ranks, "benchmarks.peers.accelerated")
    horovod = mpiexec(ranks, "benchmarks.peers.horovod_torch")
    pydtnn = plain("benchmarks.peers.pydtnn_cnn", threads=1)
    pydtnn = pydtnn.with_arguments("--ranks", str(ranks))
    return [
        Contender(REFERENCE, torchrun(ranks, ddp), ranks=ranks),
        Contender("DDP tuned", tuned, ranks=ranks),
        # Apart, because gloo's own thread then shares the core: a gain for some, a loss for others.
        Contender("DDP tuned, bound", tuned.with_arguments("--bound"), ranks=ranks),
        Contender("Accelerate", accelerate, ranks=ranks, needs="accelerate"),
        Contender("Horovod", horovod, ranks=ranks, needs="horovod"),
        Contender("PyDTNN", pydtnn, ranks=ranks, needs="pydtnn", only=("simplecnn",)),
    ]


def _ours(ranks: int) -> list[Contender]:
    module = "benchmarks.ours"
    rows = [Contender(BASELINE, plain(module, threads=1))]
    if ranks > 1:
        name = f"phalanx single, {ranks} threads"
        rows.append(Contender(name, plain(module, threads=ranks), threads=ranks))
    for strategy in _STRATEGIES:
        if strategy in STRATEGIES:
            command = mpiexec(ranks, module).with_arguments("--strategy", strategy)
            rows.append(Contender(f"phalanx {strategy}", command, ranks=ranks))
    # The script of the row "Horovod" with another import, started by our counterpart of horovodrun.
    script = phalanx_run(ranks, "benchmarks.peers.horovod_torch").with_arguments("--ours")
    rows.append(Contender("phalanx's Horovod API", script, ranks=ranks))
    tuned = script.with_arguments("--tuned")  # in the script itself, as in that of "DDP tuned"
    rows.append(Contender("phalanx's Horovod API tuned", tuned, ranks=ranks))
    return rows
