"""What does a rank more cost? Start-up, memory and processor time of a training on 2 to 64 ranks.

    python -m benchmarks.questions.scale                             # iris, two epochs
    python -m benchmarks.questions.scale --dataset mnist --data-dir DIR --steps-per-epoch 30

Each training is `phalanx train`, started as a user does, with more ranks than cores if need be. The
table tells how long it took, how much of that came before the first epoch and how much the epochs,
what the processors did meanwhile, and the memory of a rank: what is its own, and its share of what
it has in common with others (PSS of /proc/PID/smaps_rollup), at the moment when all of them
together have the most.
"""

import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.tables import table

_HEADER = [
    "ranks",
    "s in all",
    "s before",
    "s of epochs",
    "CPU s",
    "CPU s a rank",
    "PSS MiB a rank",
]
_HEADER += ["own MiB a rank", "PSS MiB in all"]
#: Seconds between two looks at the ranks' memory, which take the kernel a while.
_PAUSE = 0.2
#: What Open MPI tells each rank.
_VARIABLE = re.compile(rb"(?:^|\0)OMPI_COMM_WORLD_RANK=")


@dataclass(frozen=True)
class Memory:
    """Of all ranks together, in bytes."""

    shared_out: int = 0
    own: int = 0


@dataclass(frozen=True)
class Cost:
    """What a training on so many ranks took."""

    ranks: int
    seconds: float
    epochs: float
    cpu: float
    memory: Memory

    def line(self) -> list[str]:
        """As a row of the table."""
        pss, own = (one / 2**20 for one in (self.memory.shared_out, self.memory.own))
        before = self.seconds - self.epochs
        numbers = [self.seconds, before, self.epochs, self.cpu, self.cpu / self.ranks]
        mebibytes = [pss / self.ranks, own / self.ranks, pss]
        return [
            str(self.ranks),
            *(f"{one:.1f}" for one in numbers),
            *(f"{one:,.0f}" for one in mebibytes),
        ]


def main() -> None:
    arguments = _parse()
    lines = []
    print(" | ".join(_HEADER))
    for ranks in arguments.ranks:
        lines.append(measure(ranks, arguments).line())
        print(" | ".join(lines[-1]), flush=True)
    print("\n" + table(_HEADER, lines))


def measure(ranks: int, arguments: Namespace) -> Cost:
    """One training, from its command to its end."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words = ["--dataset", arguments.dataset, "--epochs", "2", "--ranks", str(ranks)]
        words += ["--output", str(run), *arguments.rest]
        before = _cpu()
        started = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-m", "phalanx", "train", *words], stdout=subprocess.DEVNULL
        ) as process:
            memory = _watch(process, run)
        seconds = time.perf_counter() - started
        if process.returncode:
            raise SystemExit(f"{ranks} ranks: phalanx ended with code {process.returncode}")
        epochs = json.loads((run / "result.json").read_text(encoding="utf-8"))["seconds"]
        return Cost(ranks, seconds, epochs, _cpu() - before, memory)


def _watch(process: "subprocess.Popen[bytes]", run: Path) -> Memory:
    """The most that the ranks of a job have had, from when its folder is there until it ends: to
    look at them while they start would take as long as starting some of them."""
    most = Memory()
    while process.poll() is None:
        if run.exists():
            found = [_memory(pid) for pid in _ranks(process.pid)]
            now = Memory(sum(one.shared_out for one in found), sum(one.own for one in found))
            most = max(most, now, key=lambda one: one.shared_out)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PAUSE)
    return most


def _ranks(launcher: int) -> Iterator[int]:
    """The processes of a job's ranks: descendants of its launcher that were told so."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, IndexError):
                stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
                parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    for pid in parents:
        ancestor = pid
        while ancestor in parents and ancestor != launcher:
            ancestor = parents[ancestor]
        with suppress(OSError):
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            if ancestor == launcher and pid != launcher and _VARIABLE.search(environment):
                yield pid


def _memory(pid: int) -> Memory:
    found = {}
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            name, _, rest = line.partition(":")
            if rest.endswith(" kB"):
                found[name] = int(rest.split()[0]) * 1024
    own = found.get("Private_Clean", 0) + found.get("Private_Dirty", 0)
    return Memory(found.get("Pss", 0), own)


def _cpu() -> float:
    """Seconds that ended descendants have computed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _parse() -> Namespace:
    """What is not known here is for `phalanx train`."""
    parser = ArgumentParser(prog="python -m benchmarks.questions.scale", description=__doc__)
    parser.add_argument("--ranks", nargs="+", type=int, default=[2, 4, 8, 16, 32, 64])
    parser.add_argument("--dataset", default="iris")
    arguments, rest = parser.parse_known_args()
    return Namespace(**vars(arguments), rest=rest)


if __name__ == "__main__":
    main()
