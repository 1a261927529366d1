"""The page as a file: it needs nothing else, runs nobody's code, and is there whole or not."""

import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from phalanx.errors import RunError, UsageError
from phalanx.observe.report import html, write_report
from tests.commands import Phalanx
from tests.observe.run_folders import write_run

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&<!--"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    runs = [write_run(tmp_path / f"ranks-{ranks}", ranks=ranks) for ranks in (1, 2)]
    write_report(runs, tmp_path / "page.html")
    return tmp_path / "page.html"


def own_part(text: str) -> str:
    """The page without the library."""
    library = files("phalanx.observe.report").joinpath("page", html._LIBRARY).read_text()
    assert library in text
    return text.replace(library, "")


def test_it_needs_nothing_else(page: Path) -> None:
    text = page.read_text()
    assert len(text.encode()) < 2_000_000
    assert "default-src 'none'" in text
    assert re.findall(r"https?://|@import|url\(|<link|<iframe|<img|\ssrc=", own_part(text)) == []


def test_the_library_goes_with_its_licence(page: Path) -> None:
    folder = files("phalanx.observe.report").joinpath("page", Path(html._LIBRARY).parent.name)
    assert "Apache License" in folder.joinpath("LICENSE").read_text()
    assert "Apache ECharts" in folder.joinpath("NOTICE").read_text()
    assert 'version="6.1.0"' in folder.joinpath("echarts.common.min.js").read_text()


def test_names_from_folders_are_no_code(tmp_path: Path) -> None:
    calm, hostile = (write_run(tmp_path / name) for name in ("calm", "other"))
    config = json.loads((hostile / "config.json").read_text())
    config["settings"] |= {"model": HOSTILE, HOSTILE: HOSTILE}
    config["host"]["name"] = HOSTILE
    (hostile / "config.json").write_text(json.dumps(config))
    result = json.loads((hostile / "result.json").read_text())
    result["classes"] = [HOSTILE, "{{library}}", "two"]
    (hostile / "result.json").write_text(json.dumps(result))
    pages = []
    for run in (calm, hostile):
        write_report([run], tmp_path / "page.html", notes=[HOSTILE])
        pages.append(own_part((tmp_path / "page.html").read_text()))
    for tag in ("<script", "</script", "<img", "<!--"):
        assert pages[0].count(tag) == pages[1].count(tag)
    found = re.search(r'id="document">(.*?)</script>', pages[1], re.DOTALL)
    assert found is not None
    assert json.loads(found.group(1))["title"] == f"{HOSTILE} on digits"


def test_the_same_runs_give_the_same_page(page: Path, tmp_path: Path) -> None:
    before = page.read_bytes()
    write_report([tmp_path / "ranks-1", tmp_path / "ranks-2"], page)
    assert page.read_bytes() == before


def test_a_page_that_is_too_large_is_refused(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "MOST_BYTES", 1000)
    with pytest.raises(UsageError, match="name fewer runs"):
        write_report([tmp_path / "ranks-1"], tmp_path / "large.html")
    assert not (tmp_path / "large.html").exists()


def test_a_page_stays_as_it_was_if_a_run_is_damaged(page: Path, tmp_path: Path) -> None:
    before = page.read_bytes()
    (tmp_path / "ranks-1" / "result.json").write_text("{")
    with pytest.raises(RunError, match=r"ranks-1/result\.json"):
        write_report([tmp_path / "ranks-1"], page)
    assert page.read_bytes() == before
    assert [path for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_a_report_needs_neither_torch_nor_mpi(page: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from phalanx.observe.report import write_report; "
        "write_report([Path('ranks-1')], Path('again.html')); "
        "assert not {'torch', 'mpi4py', 'safetensors', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_the_command(phalanx: Phalanx, tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    done = phalanx("report", "run", "--output", "a page.html", "--title", "Mine")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("a page.html: 0.")
    assert "<title>Mine</title>" in (tmp_path / "a page.html").read_text()
    for arguments, cause in (
        (("nothing",), "nothing: no such run folder"),
        (("run", "--output", "no/page.html"), "name a file in a folder that exists"),
        (("run", "--output", "page.pdf"), "a page is written: name it *.html"),
    ):
        refused = phalanx("report", *arguments)
        assert (refused.returncode, cause in refused.stderr) == (2, True), refused.stderr
