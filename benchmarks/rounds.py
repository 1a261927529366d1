"""Everybody runs once a round, in turn, so that a slow minute of the machine meets them all."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.contenders import Contender
from benchmarks.launchers import ContenderError, run
from benchmarks.measurement import Measurement, parse
from benchmarks.workloads import Workload

#: Seconds for the processes of a contender to start and to end.
_START = 6.0

Say = Callable[[str], None]


@dataclass
class Results:
    """All measurements by workload and contender, and why a contender has none."""

    measured: dict[str, dict[str, list[Measurement]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)

    def add(self, contender: str, measurement: Measurement) -> None:
        rows = self.measured.setdefault(measurement.workload, {})
        rows.setdefault(contender, []).append(measurement)

    def best(self, workload: str) -> dict[str, float]:
        """Samples per second of every contender in its best round."""
        rows = self.measured.get(workload, {})
        return {name: max(m.samples_per_second for m in found) for name, found in rows.items()}

    def seconds(self, workload: str) -> float:
        """What a workload has taken so far, over all contenders."""
        rows = self.measured.get(workload, {})
        return sum(m.seconds for found in rows.values() for m in found)


def measure_rounds(
    contenders: Sequence[Contender],
    workloads: Sequence[Workload],
    *,
    rounds: int,
    seconds: float,
    quick: bool,
    say: Say,
) -> Results:
    """So many rounds, as far as `seconds` and each workload's budget allow; one at least.

    Where there is no time for all in a round, those that ratios are made of have one of their own.
    """
    results = Results()
    started = time.perf_counter()
    taking_part = [one for one in contenders if not one.missing]
    for number in range(rounds):
        chosen = [workload for workload in workloads if _affordable(workload, results, number)]
        if not chosen:
            break
        left = seconds - (time.perf_counter() - started)
        if number and _estimate(taking_part, chosen, results) > left:
            say(f"no time for all in round {number + 1}")
            taking_part = [one for one in taking_part if one.in_ratios]
            if len(taking_part) < 2 or _estimate(taking_part, chosen, results) > left:
                break
        # Every other round goes backwards: nobody always runs behind the same neighbour.
        for contender in taking_part if number % 2 == 0 else reversed(taking_part):
            if contender.name not in results.failed:
                say(f"round {number + 1}: {contender.name}")
                _measure(contender, chosen, results, quick=quick, say=say)
        for workload in chosen:
            results.rounds[workload.name] = number + 1
    return results


def _estimate(
    contenders: Sequence[Contender], workloads: Sequence[Workload], results: Results
) -> float:
    """Seconds for one more round, if it takes as long as those before and processes to start."""
    seconds = 0.0
    for contender in contenders:
        rows = [results.measured.get(w.name, {}).get(contender.name, []) for w in workloads]
        seconds += _START + sum(sum(m.seconds for m in row) / len(row) for row in rows if row)
    return seconds


def time_for_another(elapsed: float, *, done: int, limit: float) -> bool:
    """Whether one more round ends in time, if it takes as long as those before; the first may."""
    return done == 0 or elapsed * (done + 1) / done <= limit


def _affordable(workload: Workload, results: Results, done: int) -> bool:
    return time_for_another(results.seconds(workload.name), done=done, limit=workload.budget)


def _measure(
    contender: Contender, workloads: list[Workload], results: Results, *, quick: bool, say: Say
) -> None:
    able = [w for w in workloads if contender.does(w.name)]
    if not able:
        return
    names = ",".join(workload.name for workload in able)
    command = contender.command.with_arguments("--workloads", names, *["--quick"] * quick)
    try:
        lines = run(command, timeout=60 + sum(workload.budget for workload in able))
        measurements = parse(lines)
        if [m.workload for m in measurements] != [w.name for w in able]:
            raise ContenderError(f"printed no measurement for some of {names}: {command}")
    except ContenderError as error:
        results.failed[contender.name] = str(error)
        say(f"  {error}\n{error.details}")
        return
    for measurement in measurements:
        results.add(contender.name, measurement)
        say(f"  {measurement.workload}: {measurement.samples_per_second:,.0f} samples/s")
