"""The documentation as a site: built without a warning, every link leads somewhere, and Chromium
has nothing to complain of."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.check_site import wrong_links

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.system("chromium")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir"]
    subprocess.run([*command, str(folder)], cwd=ROOT, check=True)
    return folder


def look_at(page: str, profile: Path, *flags: str) -> tuple[str, list[str]]:
    """What a page has become when its scripts have run, and what its console has heard."""
    done = subprocess.run(
        [
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
            *("--virtual-time-budget=20000", f"--user-data-dir={profile}", "--dump-dom", *flags),
            page,
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout, re.findall(r".*CONSOLE.*", done.stderr)


def test_every_link_leads_somewhere(site: Path) -> None:
    assert len(list(site.rglob("*.html"))) > 40
    assert wrong_links(site) == []


def test_the_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html">b</a><a href="#c">c</a><a href="#d" id="d">d</a>'
        '<script src="https://example.org/e.js"></script><a href="https://example.org">e</a>'
    )
    assert wrong_links(tmp_path) == [
        "a.html links to #c: no such place in it",
        "a.html links to b.html",
        "a.html loads https://example.org/e.js",
    ]


def test_no_page_has_an_error_in_chromium(site: Path, tmp_path: Path) -> None:
    """All of them at once, as frames of one page, from the disk and without a network."""
    pages = sorted(path.relative_to(site) for path in site.rglob("*.html"))
    frames = "".join(f'<iframe src="{page}"></iframe>' for page in pages)
    (site / "frames.html").write_text(f"{frames}<script>console.log('frames are here')</script>")
    address = (site / "frames.html").as_uri()
    _, said = look_at(address, tmp_path / "profile", "--proxy-server=127.0.0.1:9")
    assert any("frames are here" in line for line in said)
    assert [line for line in said if "frames are here" not in line] == []


def test_the_first_page_as_it_is_read(site: Path, tmp_path: Path) -> None:
    """And searched, which needs no server either."""
    shown, said = look_at(f"{(site / 'index.html').as_uri()}?q=staleness", tmp_path / "profile")
    assert said == []
    assert "The same bits on any number of ranks" in shown
    assert re.search(r"[1-9]\d* matching documents", shown)
