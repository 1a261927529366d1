"""Models in parts, in rounds: everybody who cuts a model over the ranks, in turn."""

from collections.abc import Callable

from benchmarks.parts.contenders import contenders
from benchmarks.parts.report import InParts
from benchmarks.rounds import Say, measure_rounds
from benchmarks.workloads import IN_PARTS

#: The workloads say where a model is cut in two.
RANKS = 2
#: Seconds for all rounds together.
_SECONDS = 150.0


def measure_parts(*, wanted: Callable[[str], bool], rounds: int, quick: bool, say: Say) -> InParts:
    """So many rounds, as far as the time allows, of those whose names are wanted."""
    workloads = [one.quick() if quick else one for one in IN_PARTS.values()]
    taking_part = [one for one in contenders(RANKS) if wanted(one.name)]
    results = measure_rounds(
        taking_part, workloads, rounds=rounds, seconds=_SECONDS, quick=quick, say=say
    )
    return InParts(workloads, taking_part, results)
