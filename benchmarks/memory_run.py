"""The memory a host needs for each parameter, by every way to train in parallel."""

import json

from benchmarks.launchers import Command, ContenderError, mpiexec, run, torchrun
from benchmarks.rounds import Say
from benchmarks.tables import table

_MODULE = "benchmarks.memory"


def commands(ranks: int) -> dict[str, Command]:
    """Who is measured, by the names of the tables."""
    ours = mpiexec(ranks, _MODULE)
    return {
        "DDP": torchrun(ranks, _MODULE).with_arguments("ddp"),
        "phalanx allreduce": ours.with_arguments("allreduce"),
        "phalanx central": ours.with_arguments("central"),
    }


def measure_memory(ranks: int, say: Say) -> dict[str, float | str]:
    """Bytes a parameter over all ranks of a host; or why there is no such number."""
    results: dict[str, float | str] = {}
    for name, command in commands(ranks).items():
        say(f"memory: {name}")
        try:
            lines = [line for line in run(command, timeout=120.0) if line.startswith("{")]
            results[name] = float(json.loads(lines[-1])["bytes_per_parameter"])
        except ContenderError as error:
            results[name] = str(error)
    return results


def memory_table(results: dict[str, float | str], ranks: int) -> str:
    """What was measured, beside what the parts add up to."""
    expected = {"phalanx central": f"12 + 4 × {ranks}"}
    rows = []
    for name, value in results.items():
        shown = f"{value:.1f}" if isinstance(value, float) else value
        rows.append([name, shown, expected.get(name, f"16 × {ranks}")])
    return table(["", "bytes a parameter, measured", "made of"], rows)
