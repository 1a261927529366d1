"""A document as one page of HTML that needs nothing else: styles, scripts and numbers are in it."""

import dataclasses
import html
import json
import re
from importlib.resources import files
from pathlib import Path

from phalanx.errors import UsageError
from phalanx.observe.report.document import Document
from phalanx.runs.writing import writing
from phalanx.whole_files import whole_file

#: No page is larger, so that it can be sent by mail.
MOST_BYTES = 2_000_000
_PAGE = files("phalanx.observe.report") / "page"
_LIBRARY = "echarts-6.1.0/echarts.common.min.js"
_SCRIPTS = ("numbers.js", "tables.js", "charts.js", "page.js")


def write_page(document: Document, output: Path) -> None:
    """Write a page; it appears whole or not at all."""
    text = render(document)
    if (size := len(text.encode())) > MOST_BYTES:
        raise UsageError(
            f"{output}: the page would have {size / 1e6:.1f} MB, and more than "
            f"{MOST_BYTES / 1e6:.0f} are not easily shown: name fewer runs"
        )
    with writing(output), whole_file(output) as beside:
        beside.write_text(text, encoding="utf-8")


def render(document: Document) -> str:
    """The page's text."""
    parts = {
        "title": html.escape(document.title),
        "style": _file("page.css"),
        "document": _script_safe(json.dumps(dataclasses.asdict(document), allow_nan=False)),
        "library": _file(_LIBRARY),
        "scripts": "\n".join(map(_file, _SCRIPTS)),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found.group(1)], _file("page.html"))


def _script_safe(text: str) -> str:
    """JSON in which nothing ends the element that it stands in."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _file(name: str) -> str:
    return _PAGE.joinpath(name).read_text(encoding="utf-8")
