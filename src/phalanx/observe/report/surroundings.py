"""What the runs ran on: hosts, processors, versions; and the fingerprints of what came out."""

from collections.abc import Sequence

from phalanx.observe.recorded import RecordedRun
from phalanx.observe.report.document import Block, Column, Section, Table
from phalanx.observe.scaling import differing, text_of


def surroundings(runs: Sequence[RecordedRun]) -> Section:
    """What is the same for all runs, and with a column a run what is not."""
    facts = [_facts(run) for run in runs]
    differ = differing(facts)
    same = [[name, value] for name, value in facts[0].items() if name not in differ]
    blocks: list[Block] = [Table("", [Column(""), Column("")], same)] if same else []
    if differ:
        columns = [Column(""), *(Column(run.name) for run in runs)]
        rows = [[name, *(one.get(name, "–") for one in facts)] for name in differ]
        blocks.append(Table("What differs", columns, rows))
    return Section("Environment", blocks)


def _facts(run: RecordedRun) -> dict[str, str]:
    hosts = run.known("hosts")
    facts = {"host": text_of(run.host.get("name"))}
    facts |= {name: text_of(value) for name, value in run.host.items() if name != "name"}
    if isinstance(hosts, list) and len(set(map(str, hosts))) > 1:
        facts["hosts"] = ", ".join(dict.fromkeys(map(str, hosts)))
    facts["device"] = text_of(run.known("device"))
    facts |= run.versions
    facts["weights sha256"] = text_of(run.known("weights_sha256"))
    return {name: value for name, value in facts.items() if value != "–"}
