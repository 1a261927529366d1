"""The report of a run between hosts: a table for each link and model, with the limits beside."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from benchmarks.machine import machine, versions
from benchmarks.network.contenders import CONTENDERS, REFERENCE, UNCONNECTED
from benchmarks.network.links import LINKS, Link
from benchmarks.network.rounds import Found
from benchmarks.tables import table
from benchmarks.workloads import WORKLOADS, Workload

_HOW = """\
Real hosts on one machine: network namespaces, each with a host name and a link of its own, which
the kernel shapes (`tc`), or whose packets a process carries after a delay; {ranks} ranks of one
thread. Everybody trains the same model from the same weights on the same samples in the same order,
SGD with momentum 0.9, float32, and runs once a
round, in turn; the numbers are the best of all rounds, warm-up not counted. *Compute alone* are
ranks that train on their parts of the batches at the same time and exchange nothing: `Trainer.fit`,
as in all rows of ours. *The link alone* is the least time that the gradient takes, if every
host sends each byte as seldom as a sum over all hosts allows: 2 (hosts − 1) ÷ hosts times, at the
rate of the link. *The limit* of a row that sends float32 is the longer one of the two. DDP runs
over gloo; PowerSGD has the rank in its name, begins with the third step, and has one bucket, since
with several of them its ranks now and then take one's sum for another's on gloo and abort."""
_NONE = "–"


@dataclass(frozen=True)
class Run:
    """All that a report tells of."""

    day: date
    command: str
    ranks: Sequence[int]
    found: Sequence[Found]
    problems: Sequence[str]


def render(run: Run) -> str:
    """The report as Markdown."""
    facts = machine() | versions()
    sections = [
        f"# Between hosts, {run.day.isoformat()}",
        f"`{run.command}`",
        table(["machine and versions", ""], [[name, value] for name, value in facts.items()]),
    ]
    sections += ["**Wrong:**\n" + "\n".join(f"- {p}" for p in run.problems)] * bool(run.problems)
    sections.append(_HOW.format(ranks=" + ".join(map(str, run.ranks))))
    links = [link for name, link in LINKS.items() if any(f.link == name for f in run.found)]
    for link in links:
        sections.append(f"## {link.title}")
        models = {one.measurement.workload for one in run.found if one.link == link.name}
        for name in (one for one in WORKLOADS if one in models):
            sections += _model(run, link, WORKLOADS[name])
    return "\n\n".join(sections) + "\n"


def _model(run: Run, link: Link, workload: Workload) -> list[str]:
    best = best_rates(run.found, link.name, workload.name)
    sent = gradient_bytes(workload)
    hosts = len(run.ranks)
    wire = 2 * (hosts - 1) / hosts * sent / link.bytes_per_second
    compute = workload.batch_size / best[UNCONNECTED] if UNCONNECTED in best else None
    limit = None if compute is None else max(compute, wire)
    lines = []
    for name in (one for one in CONTENDERS if one in best):
        step = workload.batch_size / best[name]
        lines.append(
            [
                name,
                f"{best[name]:,.0f}",
                f"{best[name] / best[REFERENCE]:.2f}" if REFERENCE in best else _NONE,
                f"{step * 1e3:.1f}",
                f"{step / limit:.2f}" if limit and CONTENDERS[name].exact else _NONE,
            ]
        )
    beside = f"The link alone: {wire * 1e3:.1f} ms"
    beside += "." if compute is None else f", compute alone: {compute * 1e3:.1f} ms."
    return [
        f"### {workload.name}",
        f"Global batch {workload.batch_size}, {sent / 1e6:.2f} MB of gradients. {beside}",
        table(["", "samples/s", "÷ DDP", "ms a step", "÷ limit"], lines),
    ]


def best_rates(found: Sequence[Found], link: str, workload: str) -> dict[str, float]:
    """Samples per second of every contender in its best round."""
    best: dict[str, float] = {}
    for one in found:
        if (one.link, one.measurement.workload) == (link, workload):
            rate = one.measurement.samples_per_second
            best[one.contender] = max(best.get(one.contender, 0.0), rate)
    return best


def gradient_bytes(workload: Workload) -> int:
    """What all gradients of a model take."""
    parameters = workload.make_model().parameters()
    return sum(one.numel() * one.element_size() for one in parameters if one.requires_grad)


def mismatches(found: Sequence[Found]) -> list[str]:
    """Exact contenders whose loss is not DDP's at the end, in words."""
    problems = []
    for link, name in dict.fromkeys((one.link, one.measurement.workload) for one in found):
        ends = {
            one.contender: one.measurement.loss
            for one in found
            if (one.link, one.measurement.workload) == (link, name)
        }
        expected, tolerance = ends.get(REFERENCE), WORKLOADS[name].tolerance
        for contender, loss in ends.items():
            if expected is None or loss is None or not CONTENDERS[contender].exact:
                continue
            # Written so that a loss that is not a number is wrong, too.
            if not abs(loss - expected) <= tolerance * abs(expected):
                problems.append(
                    f"{link}, {name}: {contender} ends with loss {loss:.6f}, {REFERENCE} with "
                    f"{expected:.6f}; they may differ by {tolerance:g} of it"
                )
    return problems
