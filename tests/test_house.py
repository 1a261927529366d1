"""What holds for all of the project's own files."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("src", "tests", "benchmarks", "examples", "tools")
MODULES = sorted(module for part in PARTS for module in (ROOT / part).rglob("*.py"))
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(page for part in ("docs", *PARTS) for page in (ROOT / part).rglob("*.md")),
]
#: A link to a file, without the place in it.
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
SCRIPT = re.compile(r"`((?:examples|tools)/[\w/]+\.py)`")


def test_files_are_found() -> None:
    names = {str(module.relative_to(ROOT)) for module in MODULES}
    assert {"src/phalanx/__main__.py", "tests/test_house.py", "examples/demo.py"} <= names
    targets = {target for page in PAGES for target in LINK.findall(page.read_text())}
    assert {"docs/horovod.md", "horovod.md", "migration.md"} <= targets
    assert any(SCRIPT.search(page.read_text()) for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    files = [page.parent / target for target in LINK.findall(text)]
    files += [ROOT / script for script in SCRIPT.findall(text)]
    assert [str(file) for file in files if not file.exists()] == []
