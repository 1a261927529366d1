"""The report of a run: machine, versions, tables, commands and how it was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from benchmarks.checkpoints import costs
from benchmarks.contenders import Contender
from benchmarks.exchange_run import Exchanges, Row
from benchmarks.machine import machine, versions
from benchmarks.memory_run import commands as memory_commands
from benchmarks.memory_run import memory_table
from benchmarks.parts.report import InParts, parts_sections
from benchmarks.rounds import Results
from benchmarks.tables import bytes_text, exchange_table, ratio_table, table, training_table
from benchmarks.workloads import Workload

_HOW = """\
Everybody trains the same model from the same initial weights on the same samples in the same
order, with the same global batch and SGD with momentum 0.9, float32. Each round starts every
contender once, in turn, the last one perhaps only those of the first table; the numbers are the
best of all rounds, warm-up not counted. One-thread rows use one core, all others {ranks}. *tuned*
is glibc's allocator kept from returning memory (as `phalanx` sets it by itself), channels-last for
images and a fused optimizer; with DDP also `gradient_as_bucket_view` and `static_graph`. *The
limit* is the fastest one-core row times the cores; it is measured with whole batches on one core,
so that a row may pass it. Our rows are
`Trainer.fit`, which besides the losses counts right answers; the peers do not. The losses shown
are means over the last epoch; they were compared."""

_EXCHANGE = """\
One exchange of float32 at {ranks} ranks, after which every rank reads the sum; its value is
checked. The limit is the least memory traffic (each rank's buffer read once, the sum written
once) at the bandwidth of all {ranks} cores adding arrays of that size together. At {largest} copy
moved {copy:.1f} GB/s and add {add:.1f} GB/s."""


_MEMORY = """\
All ranks' memory together (proportional set sizes) for each parameter of a float32 model trained
with Adam, less what the processes used before there was a model. Parameters and gradients take 4
bytes each, Adam's state 8; what `central` keeps once a host, the others keep once a rank."""

_CHECKPOINTS = """\
Checkpoints of VGG-11 trained with Adam: parameters and two moments. How long a training waits for
one by itself and when it is on the disk, synced, best of all; and by how much steps are slower with
so many checkpoints: the best stretch of ten steps beside the best without any, and the median of
stretches beside their neighbours without, in the same processes. DDP and FSDP save by
`torch.distributed.checkpoint`, with plans and copies kept from one to the next; ours also have
checksums, and remove the oldest."""


@dataclass(frozen=True)
class Run:
    """All that a report tells of."""

    day: date
    command: str
    ranks: int
    minutes: float
    machine: dict[str, str]
    workloads: Sequence[Workload]
    contenders: Sequence[Contender]
    results: Results
    problems: Sequence[str]
    exchange: tuple[list[Row], Exchanges] | None
    memory: dict[str, float | str]
    checkpoints: costs.Results
    parts: InParts | None = None


def describe_machine() -> dict[str, str]:
    """To be called before a run, while the machine still is quiet."""
    return machine()


def render(run: Run) -> str:
    """The report as Markdown."""
    facts = run.machine | versions()
    sections = [
        f"# Benchmarks of {run.day.isoformat()}",
        f"`{run.command}`: {run.ranks} ranks, {run.minutes:.1f} minutes.",
        table(["machine and versions", ""], [[name, value] for name, value in facts.items()]),
    ]
    sections += ["**Wrong:**\n" + "\n".join(f"- {p}" for p in run.problems)] * bool(run.problems)
    if run.workloads:
        sections += _training(run)
    if run.parts is not None:
        sections += parts_sections(run.parts)
    if run.exchange is not None:
        sections += _exchange(run.ranks, *run.exchange)
    if run.memory:
        sections += ["## Memory of a host", _MEMORY, memory_table(run.memory, run.ranks)]
    if run.checkpoints:
        shown = costs.checkpoints_table(run.checkpoints)
        sections += ["## Checkpoints", _CHECKPOINTS, shown]
    return "\n\n".join([*sections, *_commands(run)]) + "\n"


def _training(run: Run) -> list[str]:
    sections = ["## Training", _HOW.format(ranks=run.ranks)]
    sections.append(ratio_table(run.results, run.workloads, run.contenders))
    for workload in run.workloads:
        if workload.name not in run.results.measured:
            continue
        shape = "×".join(map(str, workload.input_shape))
        rounds = run.results.rounds[workload.name]
        sections += [
            f"### {workload.name}",
            f"{workload.model} on {shape}, global batch {workload.batch_size}, "
            f"{workload.epochs * workload.steps} steps, best of {rounds} round"
            f"{'s' * (rounds > 1)}.",
            training_table(run.results, workload, run.contenders),
        ]
    return sections


def _exchange(ranks: int, methods: list[Row], results: Exchanges) -> list[str]:
    sections = [f"## The exchange alone (best of {results.rounds})"]
    if results.add:
        largest = max(results.add)
        sections.append(
            _EXCHANGE.format(
                ranks=ranks,
                largest=bytes_text(largest),
                copy=results.copy[largest] / 1e9,
                add=results.add[largest] / 1e9,
            )
        )
        sections.append(exchange_table(results, methods, ranks))
    missing = [row.name for row in methods if row.missing]
    return [*sections, *[f"Not installed: {', '.join(missing)}."] * bool(missing)]


def _training_commands(
    kind: str, contenders: Sequence[Contender], workloads: Sequence[Workload]
) -> list[str]:
    lines = []
    for contender in contenders:
        able = [workload.name for workload in workloads if contender.does(workload.name)]
        if able and not contender.missing:
            command = contender.command.with_arguments("--workloads", ",".join(able))
            lines.append(f"# {kind}{contender.name}\n{command}")
    return lines


def _commands(run: Run) -> list[str]:
    lines = _training_commands("", run.contenders, run.workloads)
    if run.parts is not None:
        lines += _training_commands("in parts: ", run.parts.contenders, run.parts.workloads)
    if run.exchange is not None:
        lines += [
            f"# exchange: {row.name}\n{row.command.with_arguments(row.method)}"
            for row in run.exchange[0]
            if not row.missing
        ]
    if run.memory:
        memory = memory_commands(run.ranks).items()
        lines += [f"# memory: {name}\n{command}" for name, command in memory]
    if run.checkpoints:
        ways = [way for way in costs.ways(run.ranks) if way.name in run.checkpoints]
        lines += [f"# checkpoints: {way.name}\n{way.command_in('FOLDER')}" for way in ways]
    return ["## Commands", "```sh\n" + "\n".join(lines) + "\n```"]
