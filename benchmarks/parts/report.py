"""What the report says about models that are cut over the ranks."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.contenders import BASELINE, Contender
from benchmarks.losses import losses, mismatches
from benchmarks.parts.contenders import PEERS
from benchmarks.rounds import Results
from benchmarks.tables import NONE, absence, ratio, table
from benchmarks.workloads import Workload

_HOW = """\
Models of which every rank has a part: by layers (`pipeline` beside `torch.distributed.pipelining`,
`Schedule1F1B`) and inside of layers (`tensor` beside DTensor's `parallelize_module`), torch's own
over gloo. Both cut a model at the same places, and a batch in as many micro-batches; the rest is as
in the trainings of whole models. *tuned* is glibc's allocator and for pipelining channels-last for
images, handed on as contiguous views, because gloo takes no others, and a fused optimizer; for
DTensor, which SGD's fused kernel refuses, `foreach`. *bound* gives each rank a core, as mpiexec
does for ours."""


@dataclass(frozen=True)
class InParts:
    """What was trained, by whom, and how fast."""

    workloads: Sequence[Workload]
    contenders: Sequence[Contender]
    results: Results

    def problems(self) -> list[str]:
        """Who failed, or trained something else than the others."""
        found = [f"{name}: {cause}" for name, cause in self.results.failed.items()]
        for workload in self.workloads:
            found += mismatches(self.results, workload, contenders=self.contenders)
        return found


def parts_sections(run: InParts) -> list[str]:
    """The text, a table of ratios, and a table for each workload."""
    results = run.results
    sections = ["## Models in parts", _HOW, ratio_table(results, run.workloads)]
    for workload in run.workloads:
        if workload.name in results.measured:
            rows = [one for one in run.contenders if one.does(workload.name)]
            sections += [
                f"### {workload.name}",
                _about(workload, results.rounds[workload.name]),
                rate_table(results, workload, rows),
            ]
    return sections


def _about(workload: Workload, rounds: int) -> str:
    shape = "×".join(map(str, workload.input_shape))
    cut = ""
    if workload.strategy == "pipeline":
        cut = f" cut before layer {workload.cut}, {workload.micro_batches} micro-batches,"
    return (
        f"{workload.model} on {shape},{cut} global batch {workload.batch_size}, "
        f"{workload.epochs * workload.steps} steps, best of {rounds} round{'s' * (rounds > 1)}."
    )


def ratio_table(results: Results, workloads: Sequence[Workload]) -> str:
    """Ours beside torch's own as it comes, at its best, and beside one thread."""
    header = ["", "ours ÷ torch's own", "ours ÷ its best", "ours ÷ one thread of ours"]
    lines = []
    for workload in workloads:
        assert workload.strategy is not None
        best = results.best(workload.name)
        peer, _ = PEERS[workload.strategy]
        theirs = [rate for name, rate in best.items() if name.startswith(peer)]
        others = (best.get(peer), max(theirs, default=None), best.get(BASELINE))
        ours = best.get(f"phalanx {workload.strategy}")
        lines.append([workload.name, *(ratio(ours, other) for other in others)])
    return table(header, lines)


def rate_table(results: Results, workload: Workload, contenders: Sequence[Contender]) -> str:
    """A workload's rows: rate, ratios, last loss."""
    assert workload.strategy is not None
    best, ends = results.best(workload.name), losses(results, workload.name)
    peer, _ = PEERS[workload.strategy]
    lines = []
    for contender in contenders:
        rate = best.get(contender.name)
        if rate is None:
            lines.append([contender.name, absence(contender, results, workload), *[NONE] * 3])
            continue
        loss = ends[contender.name]
        lines.append(
            [
                contender.name,
                f"{rate:,.0f}",
                ratio(rate, best.get(peer)),
                ratio(rate, best.get(BASELINE)),
                NONE if loss is None else f"{loss:.6f}",
            ]
        )
    return table(["", "samples/s", f"÷ {peer}", "÷ one thread of ours", "last loss"], lines)
