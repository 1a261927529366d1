"""The trainings of a verification, each in processes of its own, and what came of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from phalanx.checkpoints import read_checkpoint
from phalanx.checkpoints.folders import written
from phalanx.comm.calls.launch import launch
from phalanx.errors import CheckpointError, RankFailedError
from phalanx.observe.verify.compared import Difference, differences
from phalanx.observe.verify.traces import (
    STATE,
    WEIGHTS,
    Trace,
    fingerprints,
    trace_training,
)
from phalanx.observe.verify.ways import Way
from phalanx.state.model import PARAMETERS


@dataclass(frozen=True)
class Verdict:
    """What one way came to, beside the first."""

    way: Way
    #: By what they are about; nothing if all is as promised.
    differences: dict[str, Difference] = field(default_factory=dict)
    #: How far the farthest weight is from that of the first way, where bits are not promised.
    distance: float | None = None
    #: Why there is nothing to compare.
    failure: str | None = None

    @property
    def holds(self) -> bool:
        """Whether it is as promised."""
        if self.failure is not None:
            return False
        if self.way.tolerance is None:
            return not self.differences
        return self.distance is not None and self.distance <= self.way.tolerance


def verify(
    ways: Sequence[Way], *, steps: int, folder: Path, tell: Callable[[Way], None]
) -> Iterator[Verdict]:
    """Do the training in all ways, and compare each with the first."""
    traces: dict[str, dict[int, Trace]] = {}
    for number, way in enumerate(ways):
        tell(way)
        start = None
        if way.after is not None:
            places = [one.name for one in ways].index(way.after)
            start = checkpoint_at(folder / str(places), steps // 2)
        try:
            traces[way.name] = _trained(way, steps=steps, folder=folder / str(number), start=start)
        except RankFailedError as error:
            if number == 0:
                raise
            yield Verdict(way, failure=str(error).partition("\n")[0])
            continue
        if number == 0:
            yield Verdict(way)
        elif way.tolerance is not None:
            yield Verdict(way, distance=_distance(*(folder / one for one in ("0", str(number)))))
        else:
            yield Verdict(way, differences(traces[ways[0].name], traces[way.name]))


def _trained(way: Way, *, steps: int, folder: Path, start: Path | None) -> dict[int, Trace]:
    how = {"steps": steps, "folder": folder, "start": start}
    traces = launch(trace_training, (way.settings,), ranks=way.ranks, kwargs=how)[0]
    on_disk = fingerprints(read_checkpoint(written(folder)[0]))
    for name, one in traces[steps].items():
        if name.partition("/")[0] in (WEIGHTS, STATE) and on_disk.get(name) != one:
            raise CheckpointError(f"{folder}: has another {name} than was trained")
    return traces


def checkpoint_at(folder: Path, step: int) -> Path:
    """The checkpoint of a step."""
    return next(one for one in written(folder) if int(one.name.split("-")[1]) == step)


def _distance(one: Path, other: Path) -> float:
    wanted, found = (read_checkpoint(written(folder)[0]) for folder in (one, other))
    return max(
        float((found.tensor(name) - wanted.tensor(name)).abs().max())
        for name in wanted.tensors
        if name.startswith(PARAMETERS)
    )
