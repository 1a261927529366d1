"""What a contender has to say about a workload: one line of JSON on its standard output."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from benchmarks.workloads import Workload
from phalanx.data.batches import cut

#: The timed epochs are cut in so many blocks, of which the fastest counts.
_BLOCKS = 4


@dataclass(frozen=True)
class Measurement:
    """One run of one workload; `loss` is None where the model is not the same."""

    workload: str
    samples_per_second: float
    loss: float | None
    #: All that it took, with preparations and warm-up.
    seconds: float

    def print(self) -> None:
        print(json.dumps(asdict(self)), flush=True)


def parse(lines: Iterable[str]) -> list[Measurement]:
    """The measurements among the lines that a contender printed."""
    return [Measurement(**json.loads(line)) for line in lines if line.startswith('{"workload"')]


def best_rate(workload: Workload, epoch_seconds: list[float]) -> float:
    """Samples per second in the fastest block of timed epochs."""
    timed = epoch_seconds[workload.warm_up :]
    blocks = [timed[part] for part in cut(len(timed), min(_BLOCKS, len(timed)))]
    return max(workload.samples * len(block) / sum(block) for block in blocks)
