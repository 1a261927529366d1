"""Metrics over ranks are those of all samples together."""

import math

import pytest
import torch

from phalanx.comm.base import Communicator
from phalanx.train.metrics import Meter


@pytest.mark.ranks(1, 2, 4)
def test_totals_are_over_samples_not_over_ranks(comm: Communicator) -> None:
    """Rank r has r + 1 samples, all right on rank 0 alone: an average of averages would differ."""
    meter = Meter()
    count = comm.rank + 1
    targets = torch.zeros(count, dtype=torch.int64)
    outputs = torch.tensor([[1.0, 0.0] if comm.rank == 0 else [0.0, 1.0]]).repeat(count, 1)
    meter.add(float(comm.rank), outputs, targets)
    meter.add(0.0, None, targets[:0])
    total = meter.total(comm)
    samples = sum(range(1, comm.size + 1))
    assert total.count == samples
    assert total.accuracy == 1 / samples
    assert total.loss == sum(range(comm.size)) / samples


@pytest.mark.ranks(1, 3)
def test_every_metric_over_ranks_equals_all_samples_at_once(comm: Communicator) -> None:
    names = ("top-5", "mse", "mae", "hinge", "confusion")
    generator = torch.Generator().manual_seed(1)
    outputs = torch.randn(50, 7, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 7, (50,), generator=generator)
    meter = Meter(names)
    if comm.rank != 1:  # a rank without samples knows of no classes
        turn, turns = (comm.rank > 0, 2 if comm.size > 1 else 1)
        for index in range(int(turn), 50, turns):
            meter.add(1.0, outputs[index : index + 1], targets[index : index + 1])
    found = meter.total(comm)
    answers = outputs.argmax(1)
    wanted = torch.nn.functional.one_hot(targets, 7)
    assert found.count == 50
    assert found.accuracy == float((answers == targets).double().mean())
    best = outputs.argsort(1, descending=True)[:, :5]
    assert found.more["top-5"] == float((best == targets[:, None]).any(1).double().mean())
    assert found.more["mse"] == pytest.approx(float((outputs - wanted).square().mean()))
    assert found.more["mae"] == pytest.approx(float((outputs - wanted).abs().mean()))
    hinge = torch.nn.functional.multi_margin_loss(outputs, targets)
    assert found.more["hinge"] == pytest.approx(float(hinge))
    pairs = [(int(t), int(a)) for t, a in zip(targets, answers, strict=True)]
    table = [[pairs.count((right, answer)) for answer in range(7)] for right in range(7)]
    assert found.confusion == table
    assert found.precision()[2] == table[2][2] / sum(row[2] for row in table)
    assert found.recall()[2] == table[2][2] / sum(table[2])


@pytest.mark.ranks(1, 2)
def test_every_token_of_a_sample_is_an_answer(comm: Communicator) -> None:
    """Two samples of three tokens, one of which counts for nothing: four of five are right."""
    wanted = torch.tensor([[0, 1, 1], [1, 0, -100]])
    given = torch.tensor([[0, 1, 1], [1, 1, 0]])
    outputs = torch.nn.functional.one_hot(given, 2).double().movedim(-1, 1)
    meter = Meter(("perplexity", "bits", "confusion"))
    mine = slice(comm.rank, None, comm.size)
    meter.add(2.5 * len(wanted[mine]), outputs[mine], wanted[mine], weight=2.5)
    total = meter.total(comm)
    assert (total.count, total.accuracy) == (2, 0.8)
    assert total.confusion == [[1, 1], [0, 3]]
    assert total.loss == pytest.approx(2 / comm.size)
    assert total.more == {
        "perplexity": pytest.approx(math.exp(total.loss)),
        "bits": pytest.approx(total.loss / math.log(2)),
    }


def test_a_loss_beyond_any_number_has_no_end_of_perplexity() -> None:
    meter = Meter(("perplexity",))
    meter.add(1e6, torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64))
    assert meter.mine.more == {"perplexity": math.inf}
