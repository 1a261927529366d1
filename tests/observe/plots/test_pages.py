"""What docs/figures.md and docs/reports.md show is what there is, and their commands do it."""

import re
import shlex
from pathlib import Path

import pytest

from phalanx.observe.plots import SUFFIXES
from phalanx.observe.plots.figures import FIGURES
from tests.commands import Phalanx
from tests.observe.run_folders import write_run

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("figures.md", "reports.md")
MADE = re.compile(r"^phalanx plot \S+ --figure (\S+) --output docs/(\S+)$", re.MULTILINE)


def commands(page: str, name: str) -> list[str]:
    return re.findall(rf"^ *(phalanx {name} .*)$", (DOCS / page).read_text(), re.MULTILINE)


def trained(page: str) -> list[tuple[str, int]]:
    """The folders that the page's trainings write, and their ranks."""
    text = (DOCS / page).read_text()
    found = [
        (folder, int(ranks or 1))
        for command in commands(page, "train")
        for folder in re.findall(r"--output (\S+)", command)
        for ranks in [*re.findall(r"--ranks (\d)", command), 1][:1]
    ]
    if "for ranks in 1 2 3 4;" in text:
        found += [(f"runs/ranks/{ranks}", ranks) for ranks in (1, 2, 3, 4)]
        sizes = re.search(r"for size in ([\d ]+);", text)
        assert sizes is not None
        found += [(f"runs/sizes/{size}-{n}", n) for size in sizes[1].split() for n in (1, 2)]
    return found


def test_every_figure_is_made_by_a_command_and_shown() -> None:
    text = (DOCS / "figures.md").read_text()
    shown = re.findall(r"!\[[^]]+\]\((\S+)\)", text)
    assert [file for _, file in MADE.findall(text)] == shown
    assert {name for name, _ in MADE.findall(text)} == {*FIGURES}
    assert [file for file in shown if not (DOCS / file).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page(page: str, phalanx: Phalanx, tmp_path: Path) -> None:
    for folder, ranks in trained(page):
        size = re.search(r"sizes/(\d+)-", folder)
        hidden = int(size[1]) if size else 30
        result, settings = {"parameters": 100 * hidden}, {"hidden": [hidden]}
        write_run(tmp_path / folder, ranks=ranks, settings=settings, result=result)
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    asked = [*commands(page, "report"), *commands(page, "plot")]
    assert len(asked) >= 3
    for command in asked:
        done = phalanx(*shlex.split(command)[1:])
        assert done.returncode == 0, (command, done.stderr)
    for file in re.findall(r"--output (\S+\.(?:html|svg|pdf))", "\n".join(asked)):
        assert (tmp_path / file).stat().st_size > 1000


def test_the_lines_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for ranks, name in enumerate(("one", "two"), start=1):
        write_run(tmp_path / "runs" / name, ranks=ranks)
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "reports.md").read_text(), re.DOTALL)
    exec(block, {})
    assert "<title>One rank or two</title>" in (tmp_path / "ranks.html").read_text()


def test_every_figure_and_format_is_explained() -> None:
    text = (DOCS / "reports.md").read_text()
    assert [name for name in (*FIGURES, *SUFFIXES) if f"`{name}`" not in text] == []
