"""What MkDocs is told beyond mkdocs.yml: pages that do not live in docs/, and links to them.

Guides of the examples, their sources, the contributing guide and the benchmarks' reports stand
where they belong; the site has them under the same paths, and links between files of the project
lead to pages of the site. Sources are shown as pages of their own.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import phalanx
from phalanx.observe.traffic import FORMULAS
from phalanx.strategies.registry import STRATEGIES, StrategyEntry
from phalanx.wording import flag
from tools.page_blocks import blocks

ROOT = Path(__file__).resolve().parents[1]
DOCS = "docs/"
#: Besides docs/: what is a page, what is shown as a page, and what is a file to download.
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "examples/**/README.md", "benchmarks/reports/*.md")
SOURCES = {"py": "python", "toml": "toml", "irisenv": "sh", "imgenv": "sh"}
DOWNLOADS = ("examples/*.ipynb",)
#: Where the page of the newest report is to stand.
NEWEST = "<!-- the newest report -->"
#: Where a table of the public names is to stand, with the pages that have examples of them.
NAMES = "<!-- names and their examples -->"
#: Where the facts about a strategy, and a picture that is drawn in our style, are to stand.
_FACTS = re.compile(r"<!-- facts: (\w+) -->")
_PICTURE = re.compile(r"^!\[[^]]*\]\((pictures/\w+\.svg)\)$", re.MULTILINE)
#: A link of Markdown, without the place in its target; text in backticks may have brackets, too.
_LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?(\))")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    for path in _found(*PAGES, *DOWNLOADS):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for path in _found(*(f"examples/**/*.{ending}" for ending in SOURCES)):
        files.append(File.generated(config, f"{path}.md", content=_shown(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    if NEWEST in markdown:
        markdown = markdown.replace(NEWEST, newest_report())
    if NAMES in markdown:
        markdown = markdown.replace(NAMES, names_and_examples())
    markdown = _PICTURE.sub(lambda found: _drawing(page, found[1]), markdown)
    markdown = _FACTS.sub(lambda found: facts(found[1]), markdown)
    here = _project_path(page.file)
    return _LINK.sub(
        lambda link: (
            f"{link[1]}{_site_link(link[2], here=here, page=page)}{link[3] or ''}{link[4]}"
        ),
        markdown,
    )


def on_post_build(*, config: MkDocsConfig) -> None:
    """Without a server nobody is sent to a page about missing ones, whose links are a server's."""
    (Path(config.site_dir) / "404.html").unlink()


def facts(name: str) -> str:
    """What `phalanx strategies NAME` tells, as a table."""
    entry = STRATEGIES[name]
    least, most = entry.least_ranks, entry.most_ranks
    rows = {
        "moves": entry.moves,
        "bytes a step, all ranks": FORMULAS[name].words,
        "choose it": entry.when,
        "others call it": f"{entry.also_called}; `--strategy {entry.aliases[0]}` is the same",
        "ranks": str(least) if least == most else f"{least} or more",
        "with `--shards`": _under_shards(entry),
    }
    rows |= {f"`{flag(one.name)}`": one.text for one in entry.options}
    lines = [f"| {title} | {words.replace('|', ', ')} |" for title, words in rows.items()]
    return "\n".join(["| | |", "| --- | --- |", *lines])


def _under_shards(entry: StrategyEntry) -> str:
    if not entry.keeps_shards:
        return "refused: weights depend on the number of ranks"
    if entry.splits_model:
        return "dropout and statistics of one rank; weights within rounding"
    return "the same bits on any number of ranks"


def names_and_examples() -> str:
    """Every public name of `phalanx`, and the pages whose code uses it."""
    code, titles = {}, {}
    for path in _found("docs/*.md", "docs/strategies/*.md", "docs/api/phalanx.md"):
        text = (ROOT / path).read_text()
        code[path] = "\n".join(one.text for one in blocks(text) if one.language == "python")
        titles[path] = text.partition("# ")[2].partition("\n")[0]
    lines = ["| name | examples |", "| --- | --- |"]
    for name in phalanx.__all__[1:]:
        used = [path for path, text in code.items() if re.search(rf"\bphalanx\.{name}\b", text)]
        links = ", ".join(f"[{titles[path]}](../../{path})" for path in used)
        lines.append(f"| [`{name}`](#phalanx.{name}) | {links} |")
    return "\n".join(lines)


def _drawing(page: Page, target: str) -> str:
    """A picture as a part of the page, so that its colours follow the switch of the page's."""
    source = (ROOT / _project_path(page.file)).parent / target
    return f'<div class="picture">{source.read_text()}</div>'


def newest_report() -> str:
    """The machine and first table of the newest whole report, a column a network, and all links."""
    reports = sorted((ROOT / "benchmarks/reports").glob("????-??-??.md"), reverse=True)
    text = reports[0].read_text()
    machine = dict(re.findall(r"^\| (processor|cores|torch) \| (.+) \|$", text, re.MULTILINE))
    (table,) = re.findall(r"^## Training\n.*?\n\n(\|.*?)\n\n", text, re.DOTALL | re.MULTILINE)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    head, *columns = zip(rows[0], *rows[2:], strict=True)
    turned = [head, ["---", *["---:"] * (len(head) - 1)], *columns]
    lines = [f"| {' | '.join(one)} |" for one in turned]
    lines += [
        "",
        f"{reports[0].stem}, {machine['cores']} cores of an {machine['processor']}, torch",
    ]
    links = [f"[{one.stem}](../benchmarks/reports/{one.name})" for one in reports]
    return "\n".join([*lines, f"{machine['torch']}. All reports: {', '.join(links)}."])


def _found(*patterns: str) -> Iterator[str]:
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            yield path.relative_to(ROOT).as_posix()


def _shown(path: str) -> str:
    language = SOURCES[path.rpartition(".")[2]]
    return f"# {path}\n\n```{language}\n{(ROOT / path).read_text()}\n```\n"


def _project_path(file: File) -> str:
    """Where the source of a page is, from the project's folder on."""
    return file.src_uri if file.generated_by else f"{DOCS}{file.src_uri}"


def _site_link(target: str, *, here: str, page: Page) -> str:
    """The link to what the site has for a file of the project."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
    if path.startswith(DOCS):
        path = path.removeprefix(DOCS)
    elif path == "README.md":
        path = "index.md"
    elif (ROOT / path).is_dir():
        path = f"{path}/README.md"
    elif path.rpartition(".")[2] in SOURCES:
        path = f"{path}.md"
    return posixpath.relpath(path, posixpath.dirname(page.file.src_uri) or ".")
