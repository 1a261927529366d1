"""The benchmark between hosts: its report, and on a machine that has what it takes, a smoke run."""

import re
from datetime import date
from pathlib import Path

import pytest

from benchmarks.measurement import Measurement
from benchmarks.network.__main__ import main
from benchmarks.network.contenders import REFERENCE, UNCONNECTED
from benchmarks.network.links import LINKS
from benchmarks.network.report import Run, best_rates, mismatches, render
from benchmarks.network.rounds import Found, read
from tests.hosts.namespaces import NoHostsError
from tests.hosts.network import network

OURS = "phalanx central"


def found(contender: str, rate: float, *, loss: float | None = 2.0, link: str = "1gbit") -> Found:
    return Found(link, contender, Measurement("simplecnn", rate, loss, seconds=1.0))


def test_a_report_has_the_limits_beside() -> None:
    rows = [found(UNCONNECTED, 6400, loss=None), found(REFERENCE, 1000), found(OURS, 3200)]
    rows.append(found(OURS, 3000))
    text = render(Run(date(2026, 1, 2), "the command", [1, 1], rows, []))
    assert "0.81 MB of gradients. The link alone: 6.5 ms, compute alone: 10.0 ms." in text
    assert "| phalanx central | 3,200 | 3.20 | 20.0 | 2.00 |" in text
    assert "| DDP | 1,000 | 1.00 | 64.0 | 6.40 |" in text
    assert best_rates(rows, "100mbit", "simplecnn") == {}


def test_exact_contenders_must_agree_and_lossy_ones_need_not() -> None:
    rows = [found(REFERENCE, 1), found(OURS, 1, loss=2.1), found("phalanx int8", 1, loss=2.1)]
    (problem,) = mismatches(rows)
    assert "phalanx central ends with loss 2.100000, DDP with 2.000000" in problem
    assert mismatches([found(REFERENCE, 1), found(OURS, 1, loss=float("nan"))])
    assert not mismatches([found(REFERENCE, 1), found(OURS, 1, loss=2.0001)])


def test_measurements_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    rows = [found(REFERENCE, 1.5), found(UNCONNECTED, 2, loss=None)]
    assert read(file) == []
    file.write_text("".join(one.line() + "\n" for one in rows))
    assert read(file) == rows


def test_who_is_not_root_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert main(["--links", "1gbit"]) == 2
    assert "need root: sudo make bench-network" in capsys.readouterr().err


def test_links_say_what_they_are() -> None:
    assert LINKS["10gbit"].title == "10 Gbit/s"
    assert LINKS["100mbit-20ms"].title == "100 Mbit/s with 20 ms there and back"


@pytest.mark.system("iproute2")
def test_everybody_trains_the_same_over_a_shaped_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        with network(1):
            pass
    except NoHostsError as error:
        pytest.skip(f"several hosts on one machine: {error}")
    rows = [REFERENCE, OURS, "phalanx allreduce", "phalanx bf16", "phalanx low-rank 2"]
    words = ["--quick", "--models", "iris-mlp", "--rounds", "1", "--output", str(tmp_path)]
    code = main([*words, "--links", "1gbit", "--contenders", *rows])
    assert code == 0, capsys.readouterr().out
    (file,) = tmp_path.iterdir()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-network\.md", file.name)
    text = file.read_text()
    for row in rows:
        assert re.search(rf"\| {row} \| [\d,]+ \|", text)
    assert "**Wrong:**" not in text


@pytest.mark.system("iproute2")
def test_a_long_link_takes_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--quick", "--models", "iris-mlp", "--rounds", "1"]
    code = main([*words, "--links", "100mbit-20ms", "1gbit", "--contenders", OURS])
    text = capsys.readouterr().out
    assert code == 0, text
    steps = [float(found) for found in re.findall(r"\| phalanx central .* ([\d.]+) \| – \|", text)]
    assert len(steps) == 2
    # Both send at the same time: a step takes one way at least, however busy the machine is.
    assert steps[1] > LINKS["100mbit-20ms"].round_trip_ms / 2
