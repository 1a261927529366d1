"""`phalanx report` in a real Chromium: what a reader sees is what the runs' folders say."""

import csv
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from phalanx.observe.report import write_report
from tests.commands import environment
from tests.observe.run_folders import write_run
from tests.system.chromium import PACKAGES, Browser, running_browser

pytestmark = pytest.mark.system(*PACKAGES)

SETTINGS = ("--dataset", "digits", "--model", "mlp", "--epochs", "4", "--validation-split", "0.1")
#: The rows of a table, by their first cell and the titles of the columns; numbers as they are
#: written in the page's own data.
ROWS = """
const table = arguments[0];
const titles = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
return [...table.tBodies[0].rows].map((row) => Object.fromEntries([...row.cells].map(
  (cell, index) => [titles[index], cell.dataset.value ?? cell.textContent])));
"""
TABLE = """
const heading = [...document.querySelectorAll("h2, h3, summary")].find(
  (one) => one.textContent === arguments[0]);
return heading.closest(".card, section").querySelector("table");
"""
#: What a chart draws: name and points of each curve or part.
DRAWN = """
const heading = [...document.querySelectorAll("h3")].find(
  (one) => one.textContent === arguments[0]);
const shown = echarts.getInstanceByDom(heading.parentElement.querySelector(".chart"));
return shown.getOption().series.map((one) => [one.name, one.data]);
"""
CHART = """
return [...document.querySelectorAll("h3")].find((one) => one.textContent === arguments[0])
  .parentElement.querySelector(".chart");
"""
WIDER = """
return [...document.querySelectorAll("body *")].filter((one) => {
  const inside = one.closest(".scroll, nav, .chart");
  return (!inside || inside === one) && one.getBoundingClientRect().right > innerWidth + 1;
}).map((one) => one.outerHTML.slice(0, 80));
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on one rank and on two, and the page about both, by the command line alone."""
    folder = tmp_path_factory.mktemp("report")
    for command in (
        ("train", *SETTINGS, "--threads", "1", "--profile", "--output", "one"),
        ("train", *SETTINGS, "--ranks", "2", "--profile", "--output", "two"),
        ("report", "one", "two", "--output", "both.html"),
        ("report", "two", "--output", "two.html"),
    ):
        subprocess.run(
            [sys.executable, "-m", "phalanx", *command],
            cwd=folder,
            env=environment(),
            check=True,
            capture_output=True,
        )
    return folder


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """As it is for a reader at a desk."""
    chromium.resize(1280, 900)
    chromium.prefer("light")
    return chromium


def result(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "result.json").read_text())
    return found


def rows(browser: Browser, title: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = browser.run(ROWS, browser.run(TABLE, title))
    return found


def column(run: Path, name: str) -> list[float]:
    with (run / "history.csv").open(newline="") as file:
        return [float(row[name]) for row in csv.DictReader(file)]


def wait_for(condition: Callable[[], Any]) -> Any:
    """What a condition comes to, as soon as that is something."""
    deadline = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("page", ["both.html", "two.html"])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_nothing_is_complained_about_and_nothing_else_is_asked_for(
    browser: Browser, folder: Path, page: str, colours: str
) -> None:
    browser.prefer(colours)
    browser.open(folder / page)
    assert browser.complaints() == []
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.run("return document.querySelectorAll('.chart svg').length") >= 5
    assert len(browser.screenshot()) > 10_000


def test_results_are_the_folders(browser: Browser, folder: Path) -> None:
    browser.open(folder / "both.html")
    for row in rows(browser, "Result"):
        known = result(folder / row["run"])
        assert row["strategy"] == known["strategy"]
        for name, value in (
            ("ranks", known["ranks"]),
            ("time", known["seconds"]),
            ("samples/s", known["samples_per_second"]),
            ("accuracy", known["test"]["accuracy"]),
            ("loss", known["test"]["loss"]),
            ("bytes a step", known["bytes_per_step"]),
            ("memory a rank", known["memory_bytes_per_rank"]),
        ):
            assert float(row[name]) == value
        alone = result(folder / "one")["samples_per_second"]
        assert float(row["speed-up"]) == known["samples_per_second"] / alone


def test_curves_are_the_folders(browser: Browser, folder: Path) -> None:
    browser.open(folder / "both.html")
    for title, name in (("Loss", "loss"), ("Accuracy", "accuracy")):
        drawn = dict(browser.run(DRAWN, title))
        for run in ("one", "two"):
            for label, values in (
                (f"{run}, train", column(folder / run, name)),
                (f"{run}, validation", column(folder / run, f"validation_{name}")),
            ):
                assert drawn[label] == [[epoch + 1, value] for epoch, value in enumerate(values)]


def test_phases_and_confusion_are_the_folders(browser: Browser, folder: Path) -> None:
    browser.open(folder / "two.html")
    known = result(folder / "two")
    found = {row["phase"]: row for row in rows(browser, "Seconds by phase")}
    for name, seconds in known["phases"]["seconds"].items():
        assert [float(found[name][f"rank {rank}"]) for rank in range(2)] == seconds
    assert dict(browser.run(DRAWN, "By rank")) == known["phases"]["seconds"]
    counts = browser.run(
        "return [...document.querySelector('.matrix tbody').rows].map("
        "(row) => [...row.querySelectorAll('td')].map((cell) => Number(cell.dataset.value)))"
    )
    assert counts == known["test"]["confusion"]


def test_numbers_are_written_for_people(browser: Browser, folder: Path) -> None:
    browser.open(folder / "two.html")
    known = result(folder / "two")
    tiles = browser.run(
        "return [...document.querySelectorAll('.fact')].map("
        "(one) => [one.querySelector('span').textContent, one.querySelector('b').textContent])"
    )
    shown = dict(tiles)
    assert shown["test accuracy"] == f"{known['test']['accuracy']:.2%}".replace("%", " %")
    assert shown["samples/s"] == f"{known['samples_per_second']:,.0f}"
    assert shown["parameters"] == f"{known['parameters']:,}"
    assert shown["memory of the host"] == f"{known['memory_bytes'] / 2**20:.0f} MiB"


def test_a_curve_answers_to_the_pointer(browser: Browser, folder: Path) -> None:
    browser.open(folder / "two.html")
    browser.point_at(browser.run(CHART, "Loss"))
    said = wait_for(lambda: browser.run("return document.querySelector('.pointed')?.innerText"))
    epoch = int(said.split()[1])
    assert said.startswith("epoch ")
    loss = column(folder / "two", "loss")[epoch - 1]
    assert f"{loss:.4g}"[:4] in said


def test_a_table_sorts_by_a_click(browser: Browser, folder: Path) -> None:
    browser.open(folder / "two.html")
    table = browser.run(TABLE, "Seconds by phase")
    head = browser.run("return arguments[0].tHead.rows[0].cells[1].querySelector('button')", table)
    for sign in (1, -1):
        browser.click(head)
        seconds = [float(row["rank 0"]) for row in browser.run(ROWS, table)]
        assert seconds == sorted(seconds, key=lambda one: sign * one)
    assert browser.run("return arguments[0].parentElement.ariaSort", head) == "descending"


def test_light_and_dark(browser: Browser, folder: Path) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    browser.open(folder / "two.html")
    light = browser.run(ground)
    browser.click(browser.run("return document.getElementById('theme')"))
    dark = browser.run(ground)
    assert light != dark
    browser.prefer("dark")
    browser.open(folder / "two.html")
    assert browser.run(ground) == dark


@pytest.mark.parametrize("page", ["both.html", "two.html"])
def test_a_phone_has_no_need_to_scroll_sideways(browser: Browser, folder: Path, page: str) -> None:
    browser.resize(360, 740)
    browser.open(folder / page)
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), browser.run(
        WIDER
    )
    assert browser.run(WIDER) == []


def test_names_are_no_code(browser: Browser, tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror='window.ran = 1'><b>"
    run = write_run(tmp_path / "a b<i>", ranks=2, settings={"model": hostile, "own": {}})
    known = result(run) | {"classes": [hostile, "`<b>`", "two"]}
    known["tables"] = [{"title": hostile, "columns": [hostile], "rows": [[hostile]]}]
    (run / "result.json").write_text(json.dumps(known))
    other = write_run(tmp_path / hostile.replace("/", ""), settings={"model": hostile})
    write_report([run, other], tmp_path / "page.html", notes=[hostile])
    browser.open(tmp_path / "page.html")
    assert browser.complaints() == []
    browser.point_at(browser.run(CHART, "Loss"))
    wait_for(lambda: browser.run("return document.querySelector('.pointed')?.innerText"))
    assert browser.run(
        "return [window.ran ?? 0, document.querySelectorAll('img, b i').length]"
    ) == [
        0,
        0,
    ]
    assert browser.run("return document.querySelector('h1').textContent").startswith(hostile)
