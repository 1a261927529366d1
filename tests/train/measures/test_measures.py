"""What tasks are measured by equals its plain definition, on any number of ranks."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from phalanx.comm.base import Communicator
from phalanx.data.split import Split
from phalanx.train.evaluation import evaluate
from phalanx.train.losses import make_loss
from phalanx.train.measures.ranking import auroc, average_precision
from phalanx.train.metrics import Meter, Metrics

REGRESSION = ("r2", "mae", "rmse", "mse")
LABELS = ("f1-micro", "f1-macro")
RANKED = ("auroc", "average-precision")


def numbers(samples: int = 700, columns: int = 3) -> tuple[Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(3)
    targets = torch.randn(samples, columns, generator=drawn, dtype=torch.float64) * 2 + 5
    return targets + torch.randn(samples, columns, generator=drawn, dtype=torch.float64), targets


def labels(samples: int = 700, columns: int = 3) -> tuple[Tensor, Tensor]:
    """Scores with ties."""
    outputs, targets = numbers(samples, columns)
    return (outputs - 5).round(decimals=1), (targets > 5.5).to(torch.float64)


def collected(comm: Communicator, names: tuple[str, ...], pairs: tuple[Tensor, Tensor]) -> Metrics:
    """Each rank has some samples, and the last of several none."""
    meter = Meter(names)
    turns = max(comm.size - 1, 1)
    if comm.rank < turns:
        for start in range(comm.rank * 50, len(pairs[0]), turns * 50):
            outputs, targets = (one[start : start + 50] for one in pairs)
            meter.add(0.0, outputs, targets)
    return meter.total(comm)


@pytest.mark.ranks(1, 3)
def test_errors_are_those_of_all_samples_at_once(comm: Communicator) -> None:
    found = collected(comm, REGRESSION, numbers())
    answers, wanted = (one.numpy() for one in numbers())
    squares = ((answers - wanted) ** 2).mean(0)
    assert found.accuracy is None
    assert found.more["mse"] == pytest.approx(squares.mean())
    assert found.more["rmse"] == pytest.approx(np.sqrt(squares).mean())
    assert found.more["mae"] == pytest.approx(np.abs(answers - wanted).mean())
    explained = 1 - squares / wanted.var(0)
    assert found.more["r2"] == pytest.approx(explained.mean())
    assert found.by_output["r2"] == pytest.approx(explained.tolist())
    assert list(found.more) == list(REGRESSION)


def test_errors_are_in_the_unit_of_the_targets() -> None:
    outputs, targets = numbers()
    unit = torch.tensor([10.0, 1.0, 0.5])
    plain, scaled = Meter(REGRESSION), Meter(REGRESSION, unit)
    plain.add(0.0, outputs * unit, targets * unit)
    scaled.add(0.0, outputs, targets)
    assert scaled.mine.more == pytest.approx(plain.mine.more)


@pytest.mark.parametrize(("answer", "r2"), [(2.0, 1.0), (3.0, 0.0)])
def test_targets_that_are_all_the_same(answer: float, r2: float) -> None:
    meter = Meter(("r2",))
    meter.add(0.0, torch.full((4, 1), answer), torch.full((4, 1), 2.0))
    assert meter.mine.more == {"r2": r2}


@pytest.mark.ranks(1, 3)
def test_f1_is_that_of_all_samples_at_once(comm: Communicator) -> None:
    found = collected(comm, LABELS, labels())
    outputs, targets = labels()
    answered, there = outputs > 0, targets > 0
    right, both = (answered & there).sum(0), answered.sum(0) + there.sum(0)
    assert found.by_output["f1"] == pytest.approx((2 * right / both).tolist())
    assert found.more["f1-macro"] == pytest.approx(float((2 * right / both).mean()))
    assert found.more["f1-micro"] == pytest.approx(float(2 * right.sum() / both.sum()))
    assert found.by_output["recall"] == pytest.approx((right / there.sum(0)).tolist())


@pytest.mark.ranks(1, 3)
def test_f1_of_classes(comm: Communicator) -> None:
    outputs, _ = numbers()
    targets = torch.arange(len(outputs)) % 3
    found = collected(comm, LABELS, (outputs, targets))
    answers = outputs.argmax(1)
    assert found.more["f1-micro"] == pytest.approx(found.accuracy)
    f1 = []
    for one in range(3):
        right = ((answers == one) & (targets == one)).sum()
        f1.append(2 * right / ((answers == one).sum() + (targets == one).sum()))
    assert found.more["f1-macro"] == pytest.approx(float(sum(f1)) / 3)


def plain_auroc(scores: Tensor, there: Tensor) -> float:
    """Of all pairs of a sample with and one without."""
    one, other = scores[there][:, None], scores[~there][None]
    return float(((one > other).double() + 0.5 * (one == other).double()).mean())


def plain_precision(scores: Tensor, there: Tensor) -> float:
    """The steps of recall, from one threshold to the next, times the precision there."""
    total, before = 0.0, 0.0
    for threshold in sorted(set(scores.tolist()), reverse=True):
        answered = scores >= threshold
        right = int((answered & there).sum())
        recall = right / int(there.sum())
        total += (recall - before) * right / int(answered.sum())
        before = recall
    return total


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("decimals", [1, 6])
def test_ranking_by_its_definition(seed: int, decimals: int) -> None:
    drawn = torch.Generator().manual_seed(seed)
    scores = torch.randn(60, generator=drawn, dtype=torch.float64).round(decimals=decimals)
    there = torch.rand(60, generator=drawn) < 0.3
    assert auroc(scores, there) == pytest.approx(plain_auroc(scores, there), abs=1e-12)
    wanted = plain_precision(scores, there)
    assert average_precision(scores, there) == pytest.approx(wanted, abs=1e-12)


def test_ranking_as_scikit_learn_has_it() -> None:
    from sklearn import metrics  # here, since ranks need not wait for it

    scores, there = (one[:, 0] for one in labels())
    found = auroc(scores, there > 0), average_precision(scores, there > 0)
    wanted = (
        metrics.roc_auc_score(there.numpy(), scores.numpy()),
        metrics.average_precision_score(there.numpy(), scores.numpy()),
    )
    assert found == pytest.approx(wanted)


def test_nothing_to_put_in_order() -> None:
    scores, none = torch.rand(4), torch.zeros(4, dtype=torch.bool)
    assert math.isnan(auroc(scores, none))
    assert math.isnan(auroc(scores, ~none))
    assert math.isnan(average_precision(scores, none))


def identity(split: Split, comm: Communicator, names: tuple[str, ...]) -> Metrics:
    """The metrics of outputs that are the inputs."""
    loss = make_loss("squared-error")
    model = nn.Identity()
    return evaluate(comm, model, split, loss=loss, dtype=torch.float64, metrics=names)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("samples", [700, 200])
def test_evaluation_has_the_same_bits_on_any_ranks(comm: Communicator, samples: int) -> None:
    """Of 200 samples some ranks see none."""
    outputs, targets = labels(samples)
    found = identity(Split(outputs, targets), comm, (*LABELS, *RANKED))
    columns = [(outputs[:, one], targets[:, one] > 0) for one in range(3)]
    areas = [auroc(*one) for one in columns]
    precisions = [average_precision(*one) for one in columns]
    assert found.by_output["auroc"] == areas
    assert found.more["auroc"] == math.fsum(areas) / 3
    assert found.by_output["average-precision"] == precisions


@pytest.mark.ranks(1, 2)
def test_classes_are_ranked_one_against_all_others(comm: Communicator) -> None:
    outputs, _ = numbers(300)
    targets = torch.arange(300) % 3
    found = identity(Split(outputs, targets), comm, RANKED)
    shares = outputs.softmax(1)
    areas = [plain_auroc(shares[:, one], targets == one) for one in range(3)]
    assert found.more["auroc"] == pytest.approx(sum(areas) / 3, abs=1e-12)


@pytest.mark.ranks(1, 2)
def test_every_token_is_ranked(comm: Communicator) -> None:
    """Those that no loss looks at are left out."""
    outputs, _ = numbers(300)
    targets = torch.arange(300) % 3
    tokens, wanted = outputs.view(100, 3, -1).movedim(1, 2), targets.view(100, 3).clone()
    wanted[::2, 1] = -100
    kept = wanted.flatten() >= 0
    loss = make_loss("cross-entropy")
    args = {"loss": loss, "dtype": torch.float64, "metrics": (*RANKED, "f1-micro")}
    found = evaluate(comm, nn.Identity(), Split(tokens, wanted), **args)  # type: ignore[arg-type]
    flat = Split(outputs[kept], targets[kept])
    assert found.more == evaluate(comm, nn.Identity(), flat, **args).more  # type: ignore[arg-type]


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("kind", ["errors", "labels"])
def test_a_meter_goes_on_from_its_state(comm: Communicator, kind: str) -> None:
    from phalanx.state import gather

    names, pairs = (REGRESSION, numbers()) if kind == "errors" else (LABELS, labels())
    first, second = Meter(names), Meter(names)
    share = len(pairs[0]) // comm.size
    outputs, targets = (one[comm.rank * share :][:share] for one in pairs)
    first.add(1.0, outputs[:100], targets[:100])
    second.load(gather(comm, first.state(comm)), first=comm.rank == 0)
    for meter in (first, second):
        meter.add(1.0, outputs[100:], targets[100:])
    assert second.total(comm).more == pytest.approx(first.total(comm).more)
