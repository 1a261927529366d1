"""Every block of docs/ is run, or says why not; every public name has an example that is run."""

import re
from pathlib import Path

import pytest

import phalanx
import phalanx.horovod.torch as hvd
from tests.docs.pages import COMMANDS, ELSEWHERE, NOT_RUN, PAGES, ROOT, python_of, run_blocks
from tools.page_blocks import Block, blocks

#: How many blocks of a page are marked as not run.
MARKED = {
    "get-started.md": 1,  # an installation
    "horovod.md": 2,  # lines of loops
    "migration.md": 5,  # other libraries
    "networks.md": 1,  # other hosts
    "ranks.md": 1,  # other hosts
    "slurm.md": 3,  # what needs Slurm
    "sweeps.md": 1,  # too long
}


def test_blocks_are_found() -> None:
    page = "a\n\n    one\n\n    two\n\n- b\n\n    no\n\n<!-- not run: c -->\n```python\nd\n```\n"
    first, second = blocks(page)
    assert first == Block("", "one\n\ntwo\n", 3)
    assert second == Block("python", "d\n", 12, "c")


@pytest.mark.parametrize("page", PAGES)
def test_what_is_not_run_is_little_and_named(page: str) -> None:
    assert len([one for one in blocks(PAGES[page]) if one.not_run]) == MARKED.get(page, 0)
    kinds = {one.language for one in run_blocks(page)}
    assert kinds <= {"python", *COMMANDS, *([""] if page in ELSEWHERE else [])}


def test_what_is_named_is_there() -> None:
    for page, start in NOT_RUN:
        assert any(one.text.startswith(start) for one in blocks(PAGES[page])), start


def uses(module: str) -> set[str]:
    """The names of a module that the Python of pages uses, by the module's usual name."""
    text = "\n".join(python_of(page) for page in PAGES)
    return set(re.findall(rf"\b{module}\.(\w+)", text))


def test_every_public_name_has_an_example() -> None:
    assert set(phalanx.__all__) - uses("phalanx") == set()
    assert [one for one in hvd.__all__ if f"hvd.{one}" not in python_of("api/horovod.md")] == []


def test_every_public_name_is_in_the_reference() -> None:
    listed = re.findall(r"^::: phalanx\.(\w+)$", PAGES["api/phalanx.md"], re.MULTILINE)
    assert ["__version__", *sorted(listed)] == phalanx.__all__


def test_every_name_for_keras_has_an_example() -> None:
    source = (ROOT / "src/phalanx/keras/__init__.py").read_text()
    names = re.findall(r'^    "(\w+)",$', source, re.MULTILINE)
    assert len(names) > 40
    assert [one for one in names if f"hvd.{one}" not in python_of("api/keras.md")] == []


def test_pages_are_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert [one for one in PAGES if not re.search(rf" {re.escape(one)}$", navigation, re.M)] == []
    listed = re.findall(r"[\w/.-]+\.md$", navigation, re.MULTILINE)
    places = [(ROOT / "docs" / one, ROOT / one) for one in listed]
    assert [places for places in places if not any(map(Path.exists, places))] == []


def test_every_strategy_has_its_page_and_picture() -> None:
    from phalanx.strategies.registry import STRATEGIES
    from tools.strategy_pictures import FOLDER, drawn

    for name in STRATEGIES:
        assert f"<!-- facts: {name} -->" in PAGES[f"strategies/{name}.md"]
        assert (FOLDER / f"{name}.svg").read_text() == drawn(name)
