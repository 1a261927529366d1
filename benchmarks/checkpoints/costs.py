"""What checkpoints cost a training, by every way to write them and in rounds."""

import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.checkpoints.saving import EVERY
from benchmarks.launchers import Command, ContenderError, mpiexec, run, torchrun
from benchmarks.rounds import Say, time_for_another
from benchmarks.tables import table

_TIMEOUT = 300.0
#: Seconds for all rounds together, by itself and in a run of all benchmarks.
ALONE, BESIDE_OTHERS = 280.0, 100.0


@dataclass(frozen=True)
class Way:
    """A way to write checkpoints, and how its ranks are started."""

    name: str
    command: Command
    #: How often a round has each stretch of steps; 0 if only single checkpoints are timed.
    cycles: int = 0

    def command_in(self, folder: Path | str, *, quick: bool = False) -> Command:
        words = ["--cycles", str(self.cycles), "--folder", str(folder), *["--quick"] * quick]
        return self.command.with_arguments(*words)


@dataclass
class Costs:
    """What was measured of one way, best and all."""

    waits: list[float] = field(default_factory=list)
    on_disk: list[float] = field(default_factory=list)
    size: int = 0
    #: By steps between checkpoints: seconds of a step, and those of the stretch just before,
    #: which had none.
    steps: dict[int, list[tuple[float, float]]] = field(default_factory=dict)

    def note(self, lines: Sequence[dict[str, float]]) -> None:
        """Take in what one job has printed."""
        for one in lines:
            if "waits" in one:
                self.waits.append(one["waits"])
                self.on_disk.append(one["on_disk"])
                self.size = int(one["bytes"])
        for before, one in pairwise(line for line in lines if "every" in line):
            if one["every"]:
                pairs = self.steps.setdefault(int(one["every"]), [])
                pairs.append((one["seconds"], before["seconds"]))

    def slowdown(self, every: int) -> tuple[float, float] | None:
        """By what part steps are slower: the best beside the best without, the median of pairs."""
        pairs = self.steps.get(every)
        if not pairs:
            return None
        without = min(seconds for all_ in self.steps.values() for _, seconds in all_)
        best = min(seconds for seconds, _ in pairs)
        return best / without - 1, median(one / other for one, other in pairs) - 1


Results = dict[str, Costs | str]


def ways(ranks: int) -> list[Way]:
    """Everybody; those whose trainings are slowed have cycles."""
    torch_own = torchrun(ranks, "benchmarks.peers.dcp")
    thread = torch_own.with_arguments("--how", "thread")
    return [
        Way("phalanx central", mpiexec(ranks, "benchmarks.checkpoints.saving"), cycles=2),
        Way("DDP, save", torch_own.with_arguments("--how", "save")),
        Way("DDP, async_save, thread", thread, cycles=1),
        Way("DDP, async_save, process", torch_own.with_arguments("--how", "process")),
        Way("FSDP, async_save, thread", thread.with_arguments("--sharded")),
    ]


def measure_checkpoints(
    chosen: Sequence[Way],
    *,
    rounds: int,
    seconds: float,
    say: Say,
    folder: Path | None = None,
    quick: bool = False,
) -> Results:
    """So many rounds of all, in turn, as far as the time allows; what went wrong in place of one.

    Checkpoints are written below the folder, and removed; by default below that of temporary files.
    """
    results: Results = {}
    started = time.perf_counter()
    for number in range(rounds):
        if not time_for_another(time.perf_counter() - started, done=number, limit=seconds):
            break
        for way in chosen:
            so_far = results.setdefault(way.name, Costs())
            if isinstance(so_far, str):
                continue
            say(f"checkpoints, round {number + 1}: {way.name} (load {os.getloadavg()[0]:.1f})")
            try:
                so_far.note(_run(way, folder, quick=quick))
            except ContenderError as error:
                results[way.name] = str(error)
                say(f"  {error}\n{error.details}")
    return results


def _run(way: Way, folder: Path | None, *, quick: bool) -> list[dict[str, float]]:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        lines = run(way.command_in(place, quick=quick), timeout=_TIMEOUT)
    return [json.loads(line) for line in lines if line.startswith('{"')]


def checkpoints_table(results: Results) -> str:
    """What a checkpoint costs, by every way."""
    header = ["", "training waits", "on the disk after", "bytes"]
    header += ["every step" if every == 1 else f"every {every} steps" for every in EVERY]
    rows = []
    for name, costs in results.items():
        if isinstance(costs, str):
            rows.append([name, costs, *["–"] * (len(header) - 2)])
            continue
        slowed = [_percent(costs.slowdown(every)) for every in EVERY]
        waits, on_disk = (f"{min(one) * 1e3:.0f} ms" for one in (costs.waits, costs.on_disk))
        rows.append([name, waits, on_disk, f"{costs.size:,}", *slowed])
    return table(header, rows)


def _percent(slowdown: tuple[float, float] | None) -> str:
    return "–" if slowdown is None else f"{slowdown[0]:+.1%} (median {slowdown[1]:+.1%})"
