"""Figures of runs: what is drawn, the same bytes every time, and what each needs."""

import re
from pathlib import Path

import pytest

from phalanx.errors import UsageError
from phalanx.observe import plots
from phalanx.observe.plots import write_figure
from phalanx.observe.plots.figures import FIGURES, make_figure
from phalanx.observe.recorded import read_runs
from phalanx.observe.report.document import Bars, Chart
from tests.commands import Phalanx
from tests.observe.run_folders import HISTORY, PHASES, write_run, write_table


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """The same training on one rank and on two, and both with a larger network."""
    made = []
    for hidden, factor in ((30, 1), (300, 8)):
        for ranks in (1, 2):
            result = {"parameters": 100 * hidden, "seconds": 6.5 * factor / ranks}
            folder = tmp_path / f"{hidden}-{ranks}"
            settings = {"hidden": [hidden]}
            made.append(write_run(folder, ranks=ranks, settings=settings, result=result))
    return made


def test_losses_and_accuracies(runs: list[Path]) -> None:
    for name in ("loss", "accuracy"):
        chart = make_figure(read_runs(runs[:1]), name)
        assert isinstance(chart, Chart)
        train, validation = chart.series
        assert train.points == [(row["epoch"], row[name]) for row in HISTORY]
        assert validation.points == [(row["epoch"], row[f"validation_{name}"]) for row in HISTORY]


def test_the_curves_of_each_network(runs: list[Path]) -> None:
    rows = [
        {"epoch": epoch, "rank": rank, "samples": 4, "loss": rank / epoch, "accuracy": epoch / 4}
        for epoch in (1, 2)
        for rank in (1, 2)
    ]
    write_table(runs[1] / "networks.csv", rows)
    chart = make_figure(read_runs(runs[1:2]), "network-loss")
    assert isinstance(chart, Chart)
    assert {one.name: one.points for one in chart.series} == {
        "network 1": [(1, 1), (2, 0.5)],
        "network 2": [(1, 2), (2, 1)],
    }
    chart = make_figure(read_runs(runs[:2]), "network-accuracy")
    assert isinstance(chart, Chart)
    names = ["30-1, network 0", "30-2, network 1", "30-2, network 2"]
    assert [one.name for one in chart.series] == names
    assert chart.series[0].points == [(row["epoch"], row["accuracy"]) for row in HISTORY]


def test_what_more_ranks_bring(runs: list[Path]) -> None:
    chart = make_figure(read_runs(runs), "speed-up")
    assert isinstance(chart, Chart)
    names = [one.name for one in chart.series]
    assert names == ["ideal", "central, hidden 30", "central, hidden 300"]
    chart = make_figure(read_runs(runs), "time-by-ranks")
    assert isinstance(chart, Chart)
    assert [one.points for one in chart.series] == [[(1, 6.5), (2, 3.25)], [(1, 52), (2, 26)]]


def test_what_a_larger_model_takes(runs: list[Path]) -> None:
    chart = make_figure(read_runs(runs), "time-by-size")
    assert isinstance(chart, Chart)
    assert {one.name: one.points for one in chart.series} == {
        "single, 1 rank": [(3000, 6.5), (30000, 52)],
        "central, 2 ranks": [(3000, 3.25), (30000, 26)],
    }


def test_phases_of_all_ranks(runs: list[Path]) -> None:
    bars = make_figure(read_runs(runs[:2]), "phases")
    assert isinstance(bars, Bars)
    assert bars.names == ["30-1, rank 0", "30-2, rank 0", "30-2, rank 1"]
    assert [part.name for part in bars.parts] == [*PHASES]


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_the_same_runs_give_the_same_bytes(runs: list[Path], tmp_path: Path, suffix: str) -> None:
    files = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for file in files:
        write_figure(runs, file, figure="loss")
    first, second = (file.read_bytes() for file in files)
    assert first == second
    assert {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix] == first[:4] + (
        b"l" if suffix == ".svg" else b""
    )


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_is_drawn(runs: list[Path], tmp_path: Path, figure: str) -> None:
    write_figure(runs, tmp_path / "it.svg", figure=figure, title="A title <&>")
    text = (tmp_path / "it.svg").read_text()
    assert "A title &lt;&amp;&gt;" in text
    assert re.search(r"central|30-1|ideal", text)


def test_what_a_figure_needs_is_said(runs: list[Path]) -> None:
    for figure, cause in (
        ("speed-up", "one of them with one rank and one thread"),
        ("time-by-ranks", "different numbers of ranks"),
        ("time-by-size", "different sizes"),
    ):
        with pytest.raises(UsageError, match=f"--figure {figure} needs runs .*{cause}"):
            make_figure(read_runs(runs[1:2]), figure)
    with pytest.raises(UsageError, match="did you mean 'speed-up'"):
        make_figure(read_runs(runs), "speedup")


def test_without_matplotlib(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'phalanx\[plots\]'"):
        write_figure(runs, tmp_path / "it.png", figure="loss")


def test_the_command(runs: list[Path], phalanx: Phalanx, tmp_path: Path) -> None:
    done = phalanx("plot", *runs, "--output", "it.svg", "--figure", "time-by-size")
    assert (done.returncode, done.stdout) == (0, "it.svg\n"), done.stderr
    refused = phalanx("plot", *runs, "--output", "it.jpg")
    assert refused.returncode == 2
    assert "name a file that ends in .png, .svg, .pdf" in refused.stderr
