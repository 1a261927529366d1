"""Whether gradients travel during the backward pass: which is taken, and that all ranks take it."""

import pytest
import torch
from torch import nn

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.exchange.flat import FlatParameters
from phalanx.exchange.overlap import Overlap, cut_in_buckets
from phalanx.exchange.stream import Stream
from phalanx.exchange.sums import StartedSum
from phalanx.strategies.building_blocks.overlap_trial import OverlapTrial

CLOCK = "phalanx.strategies.building_blocks.overlap_trial.time.perf_counter"


class Training:
    """Steps of a linear layer, each of which takes as long as it is said to."""

    def __init__(self, comm: Communicator, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = 0.0
        monkeypatch.setattr(CLOCK, lambda: self._now)
        self._model = nn.Linear(3, 3)
        buckets = list(cut_in_buckets(FlatParameters(self._model).blocks[0], 1))
        sums = [StartedSum(comm, bucket.gradients) for bucket in buckets]
        self._stream = Stream(sums, threaded=False)
        self._overlap = Overlap(self._stream, buckets, careful=True)
        self.trial = OverlapTrial(comm, self._overlap)

    def step(self, *, after: float, during: float) -> bool:
        """Whether the pass of the next step started sums."""
        self._overlap.watch()
        self._model(torch.ones(2, 3)).sum().backward()
        started = self._stream.started > 0
        self._overlap.finish()
        self._now += during if started else after
        self.trial.step_over()
        return started


@pytest.mark.parametrize(
    ("after", "during", "taken"), [(2.0, 1.0, True), (1.0, 2.0, False), (0.99, 1.0, True)]
)
def test_the_pass_is_left_alone_where_that_is_clearly_faster(
    after: float, during: float, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training(SingleCommunicator(), monkeypatch)
    started = [training.step(after=after, during=during) for _ in range(13)]
    assert started[:11] == [False, *[True, False] * 5]
    assert started[11:] == [taken] * 2
    (table,) = training.trial.report()
    assert table.title.startswith(
        f"--exchange auto: gradients travel {'during' if taken else 'after'} "
    )
    assert [row[-1] for row in table.rows] == [f"{after * 1e3:.1f}", f"{during * 1e3:.1f}"]


@pytest.mark.ranks(2)
def test_the_slowest_rank_counts_for_all(
    comm: Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training(comm, monkeypatch)
    during = (0.5, 3.0)[comm.rank]
    started = [training.step(after=2.0, during=during) for _ in range(12)]
    assert not started[-1]
