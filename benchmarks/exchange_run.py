"""The exchange alone, by every method and in rounds, beside the bandwidth of the memory."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

from benchmarks.launchers import Command, ContenderError, mpiexec, run, torchrun
from benchmarks.rounds import Say, time_for_another

_TIMEOUT = 120.0

#: Seconds for all methods and rounds together.
_BUDGET = 60.0


@dataclass(frozen=True)
class Row:
    """A method of exchange.py, and how its ranks are started."""

    method: str
    name: str
    command: Command
    needs: str | None = None

    @property
    def missing(self) -> bool:
        return self.needs is not None and find_spec(self.needs) is None


@dataclass
class Exchanges:
    """The best seconds by method and bytes; the best bytes per second by bytes."""

    seconds: dict[str, dict[int, float]] = field(default_factory=dict)
    copy: dict[int, float] = field(default_factory=dict)
    add: dict[int, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    rounds: int = 0

    def note(self, line: dict[str, float | str]) -> None:
        size = int(line["bytes"])
        if line["method"] == "bandwidth":
            self.copy[size] = max(self.copy.get(size, 0.0), float(line["copy"]))
            self.add[size] = max(self.add.get(size, 0.0), float(line["add"]))
            return
        best = self.seconds.setdefault(str(line["method"]), {})
        best[size] = min(best.get(size, float("inf")), float(line["seconds"]))


def rows(ranks: int) -> list[Row]:
    """Everybody."""
    module = "benchmarks.exchange"
    bound, unbound = mpiexec(ranks, module), mpiexec(ranks, module, bind=False)
    gloo = torchrun(ranks, module)
    return [
        Row("gloo", "gloo", gloo),
        Row("gloo-bound", "gloo, bound", gloo),
        Row("mpi-unbound", "MPI_Allreduce", unbound),
        Row("mpi", "MPI_Allreduce, bound", bound),
        Row("horovod", "Horovod", bound, needs="horovod"),
        Row("horovod-ours", "phalanx's Horovod API", bound),
        Row("shared", "phalanx shared", bound),
    ]


def measure_exchanges(
    methods: Sequence[Row], sizes: Sequence[int], *, ranks: int, rounds: int, say: Say
) -> Exchanges:
    """So many rounds of all methods, in turn, as far as the budget allows; one at least."""
    results = Exchanges()
    words = ["--sizes", ",".join(map(str, sizes))]
    bandwidth = Row("bandwidth", "memory bandwidth", mpiexec(ranks, "benchmarks.bandwidth"))
    started = time.perf_counter()
    for number in range(rounds):
        if not time_for_another(time.perf_counter() - started, done=number, limit=_BUDGET):
            break
        for row in [bandwidth, *methods]:
            if row.missing or row.method in results.failed:
                continue
            say(f"exchange, round {number + 1}: {row.name}")
            arguments = words if row is bandwidth else [row.method, *words]
            try:
                lines = run(row.command.with_arguments(*arguments), timeout=_TIMEOUT)
            except ContenderError as error:
                results.failed[row.method] = str(error)
                say(f"  {error}\n{error.details}")
                continue
            for line in lines:
                if line.startswith('{"method"'):
                    results.note(json.loads(line))
        results.rounds = number + 1
    return results
