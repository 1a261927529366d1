"""The cut of a model in stages: as a user wants it, or by what its layers take."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn

from phalanx.comm.base import Communicator
from phalanx.data.batches import plain
from phalanx.data.split import Samples
from phalanx.errors import UsageError
from phalanx.strategies.base import Loss
from phalanx.strategies.building_blocks.replica_groups import Groups
from phalanx.strategies.pipeline.balance import Costs, Link, best_cut, slowest
from phalanx.strategies.pipeline.layout import prefers_channels_first
from phalanx.strategies.pipeline.measuring import Passes, Survey, measure_links, survey, time_parts
from phalanx.strategies.pipeline.neighbours import Border
from phalanx.strategies.pipeline.stages import Tie, label
from phalanx.strategies.pipeline.transfer import Form
from phalanx.strategies.pipeline.unseen import survey_unseen

log = logging.getLogger("phalanx.pipeline")


@dataclass(frozen=True)
class Cut:
    """The layers that stages begin with, layer 0 among them, and what passes between stages."""

    starts: tuple[int, ...]
    layers: int
    borders: tuple[Border, ...]
    #: The samples of the micro-batch that it was found by.
    samples: int
    #: The stages whose images have their channels first, whatever the model has.
    channels_first: frozenset[int] = frozenset()

    def stage(self, index: int) -> range:
        """The layers of a stage."""
        return range(self.starts[index], [*self.starts, self.layers][index + 1])


@dataclass(frozen=True)
class Cutter:
    """What is known of a model before its first micro-batch."""

    comm: Communicator
    groups: Groups
    layers: Sequence[nn.Module]
    ties: Sequence[Tie]
    loss: Loss
    #: Whether random numbers go on from one stage to the next.
    hands_on_random: bool
    #: Whether stages may lay out their images as is fastest.
    free_layout: bool

    def cut(self, samples: Samples, wanted: tuple[int, ...] | None) -> Cut:
        """Collective. Cut the model, the same on every rank, by a first micro-batch."""
        found = self.comm.broadcast_object(survey(self.layers, samples.inputs))
        stages = self.groups.members.size
        if wanted is None:
            starts = self._places(found)
            if len(starts) < stages:
                raise self._too_few(found, starts)
            chosen = self._by_times(found, starts, samples) if stages > 1 else ()
        else:
            chosen = wanted
            self._check(found, chosen)
            if self.comm.rank == 0:
                log.info("stages begin with layers 0,%s, as asked", _spelled(chosen))
        cut = self._cut_at(found, chosen, count=len(samples.targets))
        if not self.free_layout or plain(samples.inputs).device.type != "cpu":
            return cut
        runs = [slice(run.start, run.stop) for run in map(cut.stage, range(stages))]
        first = [
            stage
            for stage, run in enumerate(runs)
            if prefers_channels_first(self.layers[run], found.outputs[run], samples=cut.samples)
        ]
        return replace(cut, channels_first=frozenset(first))

    def _cut_at(self, found: Survey, chosen: tuple[int, ...], *, count: int) -> Cut:
        borders = tuple(self._border(found, start) for start in chosen)
        return Cut((0, *chosen), len(self.layers), borders, samples=count)

    def connect(self, chosen: tuple[int, ...], inputs: Tensor) -> Cut:
        """What passes between the stages of a model in parts, whose cut is known already."""
        found = survey_unseen(self.layers, inputs)
        self._check(found, chosen)
        return self._cut_at(found, chosen, count=len(inputs))

    def _places(self, found: Survey) -> list[int]:
        """The layers that a stage may begin with."""
        return [0] + [
            start
            for start in range(1, len(self.layers))
            if isinstance(found.outputs[start - 1], Form)
            and not any(tie.first < start <= tie.last for tie in self.ties)
        ]

    def _too_few(self, found: Survey, starts: Sequence[int]) -> UsageError:
        causes = [
            f"{tie.name!r} is shared by layers {tie.first} to {tie.last}" for tie in self.ties
        ]
        for index, output in enumerate(found.outputs[:-1]):
            if isinstance(output, str):
                causes.append(f"{label(self.layers, index)} {output}")
        return UsageError(
            f"strategy 'pipeline' can cut this model into {len(starts)} stages at most, and not "
            f"into {self.groups.members.size}: {'; '.join(causes)}"
        )

    def _check(self, found: Survey, wanted: tuple[int, ...]) -> None:
        for start in wanted:
            output = found.outputs[start - 1]
            if isinstance(output, str):
                fitting = _spelled(self._places(found)[1:]) or "none"
                raise UsageError(
                    f"cut {_spelled(wanted)}: no stage can begin with layer {start}, "
                    f"because {label(self.layers, start - 1)} before it {output}; "
                    f"layers that stages can begin with: {fitting}"
                )

    def _by_times(self, found: Survey, starts: Sequence[int], samples: Samples) -> tuple[int, ...]:
        """Collective. The cut with the fastest slowest stage, by times averaged over all ranks.

        All ranks measure at the same time, as they will compute at the same time.
        """
        seconds = time_parts(self.layers, starts, samples=samples, loss=self.loss)
        seen = self.comm.gather_objects((seconds, measure_links(self.groups.members)))
        chosen: tuple[int, ...] = ()
        if seen is not None:
            count = len(samples.targets)
            sizes = [self._border(found, start).messages(count) for start in starts[1:]]
            costs = _costs(seen, ((), *sizes))
            best = best_cut(costs)
            chosen = tuple(starts[part] for part in best)
            _log(chosen, costs, best)
        return self.comm.broadcast_object(chosen)

    def _border(self, found: Survey, start: int) -> Border:
        form = found.outputs[start - 1]
        assert isinstance(form, Form)
        before = self.layers[:start]
        return Border(
            form,
            gradients=any(one.requires_grad for layer in before for one in layer.parameters()),
            random=self.hands_on_random and found.random,
            layer=label(self.layers, start - 1),
        )


def _costs(
    seen: Sequence[tuple[Sequence[Passes], Sequence[Link]]], messages: tuple[tuple[int, ...], ...]
) -> Costs:
    """Passes as they took on average over the ranks; links as the slowest replica has them."""
    rows = [[one.forward + one.backward for one in passes] for passes, _ in seen]
    passes = tuple(sum(column) / len(rows) for column in zip(*rows, strict=True))
    links = tuple(
        Link(max(one.latency for one in same), max(one.seconds_per_byte for one in same))
        for same in zip(*(links for _, links in seen), strict=True)
    )
    return Costs(passes, messages, links)


def _log(chosen: tuple[int, ...], costs: Costs, best: tuple[int, ...]) -> None:
    log.info(
        "stages begin with layers 0,%s: a micro-batch takes the slowest %.3f ms, and would take "
        "one rank %.3f ms",
        _spelled(chosen),
        slowest(costs, best) * 1e3,
        sum(costs.passes) * 1e3,
    )


def _spelled(layers: Sequence[int]) -> str:
    return ",".join(map(str, layers))
