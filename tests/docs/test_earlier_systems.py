"""The rows of docs/earlier-systems.md name tests that there are."""

import re

import pytest

from tests.docs.pages import DOCS, ROOT

PAGE = (DOCS / "earlier-systems.md").read_text()
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in PAGE.splitlines()
    if line.startswith("| ")
]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_document_has_its_rows() -> None:
    assert [line for line in PAGE.splitlines() if line.startswith("<!-- rows")] == []
    assert PAGE.count("| --- | --- | --- |") == 5
    assert len(ROWS) > 80


@pytest.mark.parametrize("row", ROWS, ids=lambda row: re.sub(r"\W+", " ", row[0])[:50])
def test_a_row_names_a_command_and_a_test_or_says_why_not(row: list[str]) -> None:
    what, command, test = row
    if {what, command, test} == {"---"} or test == "test":
        return
    assert what
    assert command
    found = TEST.findall(test)
    assert found or test.startswith("none: "), test
    for file, name in found:
        assert re.search(rf"def {name}\b", (ROOT / file).read_text()), (file, name)
