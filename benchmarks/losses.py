"""Did everybody train the same? Losses at the end of a workload, compared with torch's own."""

from collections.abc import Sequence

from benchmarks.contenders import REFERENCE, Contender
from benchmarks.rounds import Results
from benchmarks.workloads import Workload


def losses(results: Results, workload: str) -> dict[str, float | None]:
    """Every contender's loss after the last step; the same in all of its rounds, or nearly."""
    rows = results.measured.get(workload, {})
    return {name: found[0].loss for name, found in rows.items()}


def mismatches(
    results: Results, workload: Workload, *, contenders: Sequence[Contender]
) -> list[str]:
    """What is wrong with a workload's losses, in words; nothing if all agree."""
    found = losses(results, workload.name)
    ranks = {contender.name: contender.ranks for contender in contenders}
    problems = []
    for name, loss in found.items():
        reference = _reference(workload, ranks[name], found)
        if reference is None or loss is None:
            continue
        expected = found[reference]
        assert expected is not None
        # Written so that a loss that is not a number is wrong, too.
        if not abs(loss - expected) <= workload.tolerance * abs(expected):
            problems.append(
                f"{workload.name}: {name} ends with loss {loss:.6f}, {reference} with "
                f"{expected:.6f}; they may differ by {workload.tolerance:g} of it"
            )
    return problems


def _reference(workload: Workload, ranks: int, found: dict[str, float | None]) -> str | None:
    name = REFERENCE if workload.depends_on_ranks and ranks > 1 else "torch, 1 thread"
    return name if name in found else None
