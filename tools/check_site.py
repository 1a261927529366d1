"""Looks over a built site: every link leads somewhere, and nothing is loaded from elsewhere.

.venv/bin/python -m tools.check_site build/site
"""

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: What a browser fetches by itself when it opens a page, by element and attribute.
_FETCHED = {("img", "src"), ("script", "src"), ("iframe", "src"), ("link", "href")}


@dataclass
class Seen(HTMLParser):
    """What of a page links or is linked to."""

    ids: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    fetched: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is not None and name in ("id", "name"):
                self.ids.add(value)
            elif value is not None and (tag, name) in _FETCHED | {("a", "href")}:
                (self.links if tag == "a" else self.fetched).add(value)


def wrong_links(site: Path) -> list[str]:
    """A line for each link of a site that leads nowhere, and for all that needs a network."""
    pages = {path: Seen() for path in site.rglob("*.html")}
    for path, page in pages.items():
        page.feed(path.read_text())
    wrong = []
    for path, page in pages.items():
        for link in sorted(page.links | page.fetched):
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if parts.scheme or parts.netloc:
                if link in page.fetched and parts.scheme != "data":
                    wrong.append(f"{path.relative_to(site)} loads {link}")
            elif not target.exists():
                wrong.append(f"{path.relative_to(site)} links to {link}")
            elif parts.fragment and unquote(parts.fragment) not in pages[target].ids:
                wrong.append(f"{path.relative_to(site)} links to {link}: no such place in it")
    return wrong


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    found = wrong_links(folder)
    print("\n".join(found) or f"every link leads somewhere: {folder / 'index.html'}")
    sys.exit(bool(found))
