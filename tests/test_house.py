"""What holds for all of the project's own files."""

import ast
import re
from collections import Counter
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

Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_files_are_found() -> None:
    names = {str(module.relative_to(ROOT)) for module in MODULES}
    assert {"src/phalanx/__main__.py", "tests/test_house.py", "examples/demo.py"} <= names
    targets = {target for page in PAGES for target in LINK.findall(page.read_text())}
    assert {"docs/horovod.md", "horovod.md", "migration.md"} <= targets
    assert any(SCRIPT.search(page.read_text()) for page in PAGES)


def test_no_module_is_over_300_lines() -> None:
    lengths = {str(one.relative_to(ROOT)): len(one.read_text().splitlines()) for one in MODULES}
    assert {name: length for name, length in lengths.items() if length > 300} == {}


def test_no_function_is_over_40_lines() -> None:
    long = {}
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, Function) and length_of(node) > 40:
                long[f"{module.relative_to(ROOT)}:{node.name}"] = length_of(node)
    assert long == {}


def length_of(function: Function) -> int:
    """Its lines from `def` on, docstring and all."""
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def test_no_folder_has_more_than_20_modules() -> None:
    counts = Counter(str(module.parent.relative_to(ROOT)) for module in MODULES)
    assert {folder: count for folder, count in counts.items() if count > 20} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    files = [page.parent / target for target in LINK.findall(text)]
    files += [ROOT / script for script in SCRIPT.findall(text)]
    assert [str(file) for file in files if not file.exists()] == []
