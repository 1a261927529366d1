"""How findings of `phalanx doctor` are shown."""

import json
from collections.abc import Iterable
from dataclasses import asdict

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from phalanx.cli.output.console import wide_console
from phalanx.observe.doctor.finding import Finding, Verdict, worst
from phalanx.wording import counted

_STYLES: dict[Verdict, str] = {"fine": "green", "odd": "yellow", "broken": "bold red"}


def show(findings: Iterable[tuple[str, Finding]]) -> Verdict:
    """Print findings as they come, under the titles of their groups; the worst verdict."""
    console, verdicts, last = wide_console(), [], ""
    for title, one in findings:
        if title != last:
            console.print(title, style="bold", highlight=False)
            last = title
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_column(width=6)
        line.add_column(width=22, overflow="fold")
        line.add_column(overflow="fold")
        said = Text(one.said)
        if one.advice:
            said.append(f"\n→ {one.advice}", style="italic")
        line.add_row(Text(one.verdict, style=_STYLES[one.verdict]), one.name, said)
        console.print(Padding(line, (0, 0, 0, 2), expand=False), highlight=False)
        verdicts.append(one.verdict)
    counts = [counted(verdicts.count(kind), f"{kind} thing") for kind in ("broken", "odd")]
    told = [count for count in counts if not count.startswith("0 ")]
    console.print(", ".join(told) or "all is fine", highlight=False)
    return worst(verdicts)


def print_json(findings: Iterable[tuple[str, Finding]]) -> Verdict:
    """Print all findings as one document; the worst verdict."""
    found = [{"group": title} | asdict(one) for title, one in findings]
    verdict = worst(one["verdict"] for one in found)
    print(json.dumps({"verdict": verdict, "findings": found}, indent=2))
    return verdict
