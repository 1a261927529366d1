"""Where to cut a model so that the slowest stage of a pipeline is as fast as can be.

A pipeline gives out a micro-batch as often as its slowest stage does, so that one is what counts.
What a stage takes for a micro-batch is modelled as the passes through its layers, plus what it has
to do with its neighbours: the activation and its gradient, each over the link between the two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True)
class Link:
    """What a message between two neighbouring ranks takes."""

    latency: float
    seconds_per_byte: float

    def seconds(self, size: int) -> float:
        """What a message of so many bytes takes."""
        return self.latency + size * self.seconds_per_byte


@dataclass(frozen=True)
class Costs:
    """What the parts of a model cost that cannot be cut any further, for one micro-batch."""

    #: Forward and backward, in seconds.
    passes: tuple[float, ...]
    #: Bytes of every message at the border before each part, both ways; none before the first.
    messages: tuple[tuple[int, ...], ...]
    #: From each rank of a replica to the next.
    links: tuple[Link, ...]

    def stage(self, stage: int, parts: range) -> float:
        """The seconds that a stage of these parts takes for a micro-batch."""
        return sum(self.passes[parts.start : parts.stop]) + self._borders(stage, parts)

    def _borders(self, stage: int, parts: range) -> float:
        seconds = 0.0
        if stage > 0:
            link = self.links[stage - 1]
            seconds += sum(link.seconds(size) for size in self.messages[parts.start])
        if stage < len(self.links):
            link = self.links[stage]
            seconds += sum(link.seconds(size) for size in self.messages[parts.stop])
        return seconds


def slowest(costs: Costs, cut: Sequence[int]) -> float:
    """The seconds of the slowest stage if stages begin with part 0 and the parts of the cut."""
    bounds = [0, *cut, len(costs.passes)]
    return max(
        costs.stage(stage, range(bounds[stage], bounds[stage + 1])) for stage in range(len(cut) + 1)
    )


def best_cut(costs: Costs) -> tuple[int, ...]:
    """The cut with the fastest slowest stage, a stage for each rank, by dynamic programming.

    The first stages up to some part are best cut in a way that does not depend on what comes
    behind: so the best ends of one more stage follow from those of the stages before it.
    """
    parts, stages = len(costs.passes), len(costs.links) + 1
    assert parts >= stages, "every stage needs a part"
    sums = [0.0, *accumulate(costs.passes)]
    infinity = float("inf")
    best = [0.0] + [infinity] * parts  # of no stage, up to each part
    choices: list[list[int]] = []
    for stage in range(stages):
        row, choice = [infinity] * (parts + 1), [0] * (parts + 1)
        # Every stage before and behind needs a part, and the last one ends with the last part.
        ends = range(stage + 1, parts - (stages - stage - 1) + 1)
        for end in ends if stage < stages - 1 else [parts]:
            for start in range(stage, end):
                if best[start] >= row[end]:
                    continue
                own = sums[end] - sums[start] + costs._borders(stage, range(start, end))
                slower = max(best[start], own)
                if slower < row[end]:
                    row[end], choice[end] = slower, start
        best = row
        choices.append(choice)
    cut: list[int] = []
    end = parts
    for choice in reversed(choices[1:]):
        end = choice[end]
        cut.append(end)
    return tuple(reversed(cut))
