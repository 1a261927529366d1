"""Models in parts: torch's own ways still run, cut as ours does, and end with the same loss."""

from argparse import Namespace
from fnmatch import fnmatch

import pytest
from torch.distributed.tensor.parallel import ColwiseParallel

from benchmarks.contenders import BASELINE
from benchmarks.launchers import run
from benchmarks.measurement import Measurement, parse
from benchmarks.ours import measure as measure_ours
from benchmarks.parts.contenders import contenders
from benchmarks.parts.report import InParts, parts_sections
from benchmarks.peers.dtensor import PLANS
from benchmarks.peers.loop import measure as measure_peer
from benchmarks.peers.plain import Plain
from benchmarks.rounds import Results
from benchmarks.workloads import IN_PARTS
from phalanx.comm.base import Communicator
from phalanx.strategies.tensor.plan import make_plan
from tests.commands import PATIENCE

SMALL = ("pipeline-transformer", "tensor-transformer")


def loss_of_plain_torch(workload: str) -> float | None:
    return measure_peer(IN_PARTS[workload].quick(), Plain(Namespace(tuned=False))).loss


@pytest.mark.parametrize(
    ("row", "workload"),
    [
        pytest.param("pipelining tuned, bound", "pipeline-transformer", marks=pytest.mark.long),
        pytest.param("DTensor tuned, bound", "tensor-transformer", marks=pytest.mark.long),
    ],
)
def test_torchs_own_trains_the_same(row: str, workload: str) -> None:
    (contender,) = (one for one in contenders(2) if one.name == row)
    command = contender.command.with_arguments("--workloads", workload, "--quick")
    (found,) = parse(run(command, timeout=PATIENCE))
    assert found.loss == pytest.approx(loss_of_plain_torch(workload), rel=1e-5)


@pytest.mark.ranks(2)
@pytest.mark.long
@pytest.mark.parametrize("name", SMALL)
def test_ours_trains_the_same(name: str, comm: Communicator) -> None:
    workload = IN_PARTS[name].quick()
    assert workload.strategy is not None
    options = workload.strategy_options(workload.strategy)
    ours = measure_ours(workload, comm, strategy=workload.strategy, options=options)
    assert ours.loss == pytest.approx(loss_of_plain_torch(name), rel=1e-5)


@pytest.mark.parametrize("name", [name for name in IN_PARTS if name.startswith("tensor")])
def test_dtensor_splits_what_ours_splits(name: str) -> None:
    workload = IN_PARTS[name]
    model, plan = workload.make_model(), PLANS[workload.model]
    theirs = {
        layer: "output" if isinstance(style, ColwiseParallel) else "input"
        for pattern, style in plan.items()
        for layer, _ in model.named_modules()
        if fnmatch(layer, pattern)
    }
    assert theirs == {split.name: split.how for split in make_plan(model, 2)}


def test_the_report_compares_ours_with_torchs_best() -> None:
    workload = IN_PARTS["tensor-mlp"]
    results = Results(rounds={workload.name: 2})
    rates = {"torch, 1 thread": 90.0, BASELINE: 100.0, "DTensor": 80.0, "DTensor tuned": 120.0}
    for name, rate in (rates | {"phalanx tensor": 180.0}).items():
        loss = 2.0 if name != "DTensor" else 2.1
        results.add(name, Measurement(workload.name, rate, loss, 1.0))
    found = InParts([workload], contenders(2), results)
    text = "\n".join(parts_sections(found))
    assert "| tensor-mlp | 2.25 | 1.50 | 1.80 |" in text
    assert "| phalanx tensor | 180 | 2.25 | 1.80 | 2.000000 |" in text
    assert "phalanx pipeline" not in text
    (problem,) = found.problems()
    assert "DTensor ends with loss 2.100000, torch, 1 thread with 2.000000" in problem
