from argparse import Namespace
from dataclasses import replace

import pytest
import torch

from benchmarks.measurement import Measurement, best_rate, parse
from benchmarks.ours import measure as measure_ours
from benchmarks.peers.loop import measure as measure_peer
from benchmarks.peers.plain import Plain
from benchmarks.peers.pydtnn_cnn import parse_rate
from benchmarks.workloads import IN_PARTS, WORKLOADS
from phalanx.comm.single import SingleCommunicator


@pytest.mark.parametrize("name", [*WORKLOADS, "tensor-mlp", "tensor-transformer"])
def test_data_and_weights_come_from_the_seed(name: str) -> None:
    workload = (WORKLOADS | IN_PARTS)[name].quick()
    first, second = workload.make_data(), workload.make_data()
    assert len(first) == workload.batch_size * workload.steps
    assert first.input_shape == workload.input_shape
    assert torch.equal(first.inputs, second.inputs)
    assert torch.equal(first.targets, second.targets)
    assert first.targets.max() < workload.classes
    weights = [list(workload.make_model().parameters()) for _ in range(2)]
    assert all(torch.equal(one, other) for one, other in zip(*weights, strict=True))


@pytest.mark.parametrize("name", ["iris-mlp", "simplecnn"])
@pytest.mark.parametrize("tuned", [False, True])
def test_ours_and_plain_torch_end_with_the_same_loss(name: str, tuned: bool) -> None:
    workload = WORKLOADS[name].quick()
    plain = measure_peer(workload, Plain(Namespace(tuned=tuned)))
    ours = measure_ours(workload, SingleCommunicator(), strategy="single", options={})
    assert plain.loss == pytest.approx(ours.loss, rel=1e-5)


def test_the_fastest_block_counts_and_warm_up_does_not() -> None:
    workload = replace(WORKLOADS["iris-mlp"], steps=200)
    assert (workload.warm_up, workload.samples) == (1, 3200)
    assert best_rate(workload, [0.001, 2.0, 1.0, 4.0]) == 3200
    assert best_rate(workload, [0.001, 2.0, 1.0, 4.0, 1.0, 3.0, 3.0]) == 6400 / 3


def test_measurements_are_found_among_other_lines(capsys: pytest.CaptureFixture[str]) -> None:
    measurement = Measurement("iris-mlp", 12.5, None, 1.0)
    measurement.print()
    assert parse(["a warning", *capsys.readouterr().out.splitlines(), "{}"]) == [measurement]


def test_the_rate_in_pydtnns_report() -> None:
    report = (
        "Training throughput (from model): 39554.6417 samples/s\n"
        "Training throughput (from model, from last half of each epoch): 3812.5000 samples/s\n"
    )
    assert parse_rate(report) == 3812.5
    with pytest.raises(SystemExit, match="no throughput in what PyDTNN printed"):
        parse_rate("nothing of use")
