"""The code blocks of a page in Markdown, and why a block is not one to run."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

#: Above a block: `<!-- not run: WHY -->`.
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
_FENCE = re.compile(r"(```+)\s*(\w*)")
_ITEM = re.compile(r"(?:[-*]|\d+\.)\s")


@dataclass(frozen=True)
class Block:
    """A fenced block in its language, or an indented one, which has none."""

    language: str
    text: str
    line: int
    #: Why nothing is to run it, if the page says so.
    not_run: str | None = None


def blocks(page: str) -> Iterator[Block]:
    """All blocks of a page, in their order. Indented text of a list is no block."""
    lines = page.splitlines()
    number, above, in_list, why = 0, "", False, None
    while number < len(lines):
        line = lines[number]
        fence, start = _FENCE.fullmatch(line.strip()), number
        if fence:
            while lines[(number := number + 1)].strip() != fence[1]:
                pass
            yield Block(fence[2], _joined(lines[start + 1 : number]), start + 1, why)
        elif line.startswith("    ") and not above and not in_list:
            while number + 1 < len(lines) and re.match(r"    |\s*$", lines[number + 1]):
                number += 1
            yield Block("", _joined(one[4:] for one in lines[start : number + 1]), start + 1, why)
        elif line and not line.startswith(" "):
            in_list = bool(_ITEM.match(line))
        if line:
            found = _NOT_RUN.fullmatch(line)
            why = found[1] if found else None
        above, number = lines[number] if number < len(lines) else "", number + 1


def _joined(lines: Iterator[str] | list[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"
