import pytest

from benchmarks.bandwidth import limit_seconds
from benchmarks.contenders import Contender
from benchmarks.exchange_run import Exchanges, Row
from benchmarks.launchers import Command
from benchmarks.losses import mismatches
from benchmarks.measurement import Measurement
from benchmarks.rounds import Results, measure_rounds, time_for_another
from benchmarks.tables import bytes_text, exchange_table, ratio_table, training_table
from benchmarks.workloads import WORKLOADS, Workload

COMMAND = Command(("true",))
TORCH = Contender("torch, 1 thread", COMMAND)
DDP = Contender("DDP", COMMAND, ranks=2)
TUNED = Contender("DDP tuned", COMMAND, ranks=2)
ABSENT = Contender("Absent", COMMAND, ranks=2, needs="no_such_package")
SINGLE = Contender("phalanx single, 1 thread", COMMAND)
CENTRAL = Contender("phalanx central", COMMAND, ranks=2)
ALL = [TORCH, DDP, TUNED, ABSENT, SINGLE, CENTRAL]


def results(workload: str = "vgg11", **losses: float) -> Results:
    made = Results()
    rates = {"torch, 1 thread": 100, "DDP": 120, "DDP tuned": 150}
    rates |= {"phalanx single, 1 thread": 90, "phalanx central": 180}
    for name, rate in rates.items():
        loss = losses.get(name.split()[-1], 2.0)
        made.add(name, Measurement(workload, rate / 2, loss, 1.0))
        made.add(name, Measurement(workload, rate, loss, 1.0))
    return made


def test_rows_of_a_training() -> None:
    lines = training_table(results(), WORKLOADS["vgg11"], ALL).splitlines()[2:]
    assert lines[0] == "| torch, 1 thread | 100 | 0.83 | 1.11 | 100% | 2.000000 |"
    assert lines[3] == "| Absent | not installed | – | – | – | – |"
    assert lines[5] == "| phalanx central | 180 | 1.50 | 2.00 | 90% | 2.000000 |"


def test_ratios_of_ours() -> None:
    lines = ratio_table(results(), [WORKLOADS["vgg11"]], ALL).splitlines()
    assert lines[2] == "| vgg11 | 1.50 | 1.20 | 2.00 |"


def test_losses_that_agree() -> None:
    assert mismatches(results(central=2.001), WORKLOADS["vgg11"], contenders=ALL) == []


def test_losses_that_do_not() -> None:
    for loss in (2.1, float("nan")):
        (problem,) = mismatches(results(central=loss), WORKLOADS["vgg11"], contenders=ALL)
        assert problem.startswith(f"vgg11: phalanx central ends with loss {loss:.6f}, torch, 1")


def test_batch_norm_is_compared_at_equal_ranks() -> None:
    changed = results("resnet20", DDP=2.2, tuned=2.2, central=2.2)
    assert mismatches(changed, WORKLOADS["resnet20"], contenders=ALL) == []
    changed = results("resnet20", DDP=2.2, tuned=2.2)
    (problem,) = mismatches(changed, WORKLOADS["resnet20"], contenders=ALL)
    assert "DDP with 2.200000" in problem


def test_the_exchange_beside_its_limit() -> None:
    found = Exchanges()
    for size in (16, 4 << 20):
        found.note({"method": "bandwidth", "bytes": size, "copy": 1e9, "add": 3 * 4.0 * 2**20})
        for method, seconds in (("gloo", 8.0), ("gloo", 9.0), ("shared", 2.0)):
            found.note({"method": method, "bytes": size, "seconds": seconds})
    methods = [Row("gloo", "gloo", COMMAND), Row("shared", "phalanx shared", COMMAND)]
    small, large = exchange_table(found, methods, 2).splitlines()[2:]
    assert small == "| 16 B | 8e+03 ms | 2e+03 ms | – | 4.00 | – |"
    assert large == "| 4 MiB | 8e+03 ms | 2e+03 ms | 1e+03 ms | 4.00 | 2.00 |"


def test_the_limit_reads_every_buffer_and_writes_the_sum() -> None:
    assert limit_seconds(10, ranks=2, bandwidth=30) == 1


def test_another_round_must_end_in_time() -> None:
    assert time_for_another(100, done=0, limit=50)
    assert time_for_another(20, done=1, limit=40)
    assert not time_for_another(30, done=2, limit=40)


def test_sizes_in_words() -> None:
    assert [bytes_text(size) for size in (16, 1 << 10, 128 << 20)] == ["16 B", "1 KiB", "128 MiB"]


@pytest.mark.parametrize(("seconds", "runs"), [(50, (1, 1)), (70, (1, 2)), (90, (2, 2))])
def test_where_time_is_short_a_round_is_of_those_that_are_compared(
    monkeypatch: pytest.MonkeyPatch, seconds: float, runs: tuple[int, int]
) -> None:
    def measure(one: Contender, chosen: list[Workload], found: Results, **_: object) -> None:
        for workload in chosen:
            found.add(one.name, Measurement(workload.name, 100.0, 2.0, 10.0))

    monkeypatch.setattr("benchmarks.rounds._measure", measure)
    found = measure_rounds(
        ALL, [WORKLOADS["vgg11"]], rounds=2, seconds=seconds, quick=False, say=lambda _: None
    )
    rows = found.measured["vgg11"]
    assert (len(rows["torch, 1 thread"]), len(rows["DDP tuned"])) == runs
    assert len(rows["DDP"]) == len(rows["phalanx central"]) == runs[1]
    assert found.rounds["vgg11"] == runs[1]
