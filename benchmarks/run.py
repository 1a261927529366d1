"""Run ours and the peers, print the tables, write a dated report.

`python -m benchmarks.run` takes about twelve minutes on a quiet machine of two cores.
"""

import shlex
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from benchmarks.checkpoints import costs
from benchmarks.contenders import contenders
from benchmarks.exchange import SIZES
from benchmarks.exchange_run import Exchanges, Row, measure_exchanges, rows
from benchmarks.losses import mismatches
from benchmarks.memory_run import measure_memory
from benchmarks.page import page_of
from benchmarks.parts.measure import RANKS, measure_parts
from benchmarks.parts.report import InParts
from benchmarks.report import Run, describe_machine, render
from benchmarks.rounds import Say, measure_rounds
from benchmarks.workloads import WORKLOADS, Workload
from phalanx.comm.launch.process import available_cores
from phalanx.observe.report.html import write_page

_REPORTS = Path(__file__).parent / "reports"
_EXCHANGE, _MEMORY, _CHECKPOINTS = "exchange", "memory", "checkpoints"
_PARTS = "parts"
#: The whole run has twelve minutes; the last tables need none of it.
_SECONDS = 11.5 * 60
_QUICK = (["iris-mlp", _EXCHANGE], (16, 64 << 10))


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 when a contender failed or trained something else than the others."""
    words = list(sys.argv[1:] if argv is None else argv)
    arguments = _parse(words)
    started = time.perf_counter()

    def say(text: str) -> None:
        print(f"[{time.perf_counter() - started:4.0f} s] {text}", flush=True)

    run = _measure(arguments, words, say=say, started=started)
    text = render(run)
    print("\n" + text)
    folder = arguments.output or (None if arguments.quick else _REPORTS)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{run.day.isoformat()}.md"
        file.write_text(text, encoding="utf-8")
        page = file.with_suffix(".html")
        write_page(page_of(text), page)
        print(f"written to {file} and {page}")
    return 1 if run.problems else 0


def _measure(arguments: Namespace, words: list[str], *, say: Say, started: float) -> Run:
    before = describe_machine()
    chosen = _workloads(arguments)
    taking_part = [c for c in contenders(arguments.ranks) if _wanted(c.name, arguments)]
    if arguments.ranks > available_cores():
        say(f"only {available_cores()} cores for {arguments.ranks} ranks: they share them")
    exchange = _exchange(arguments, say) if _EXCHANGE in arguments.only else None
    memory = measure_memory(arguments.ranks, say) if _MEMORY in arguments.only else {}
    saved = _checkpoints(arguments, say) if _CHECKPOINTS in arguments.only else {}
    parts = _parts(arguments, say) if _PARTS in arguments.only else None
    results = measure_rounds(
        taking_part,
        chosen,
        rounds=arguments.rounds,
        seconds=_SECONDS - (time.perf_counter() - started),
        quick=arguments.quick,
        say=say,
    )
    failed = results.failed | (exchange[1].failed if exchange else {})
    problems = [f"{name}: {cause}" for name, cause in failed.items()]
    for part, found in ((_MEMORY, memory), (_CHECKPOINTS, saved)):
        problems += [f"{part}, {n}: {one}" for n, one in found.items() if isinstance(one, str)]
    for workload in chosen:
        problems += mismatches(results, workload, contenders=taking_part)
    problems += parts.problems() if parts else []
    return Run(
        day=date.today(),
        command=shlex.join(["python", "-m", "benchmarks.run", *words]),
        ranks=arguments.ranks,
        minutes=(time.perf_counter() - started) / 60,
        machine=before,
        workloads=chosen,
        contenders=taking_part,
        results=results,
        problems=problems,
        exchange=exchange,
        memory=memory,
        checkpoints=saved,
        parts=parts,
    )


def _exchange(arguments: Namespace, say: Say) -> tuple[list[Row], Exchanges]:
    sizes = _QUICK[1] if arguments.quick else SIZES
    methods = [row for row in rows(arguments.ranks) if _wanted(row.name, arguments)]
    results = measure_exchanges(
        methods, sizes, ranks=arguments.ranks, rounds=arguments.rounds, say=say
    )
    return methods, results


def _checkpoints(arguments: Namespace, say: Say) -> costs.Results:
    ways = [way for way in costs.ways(arguments.ranks) if _wanted(way.name, arguments)]
    return costs.measure_checkpoints(
        ways,
        rounds=arguments.rounds,
        seconds=costs.BESIDE_OTHERS,
        say=say,
        quick=arguments.quick,
    )


def _parts(arguments: Namespace, say: Say) -> InParts | None:
    if arguments.ranks != RANKS:
        say(f"models in parts are cut for {RANKS} ranks, and left out at {arguments.ranks}")
        return None
    return measure_parts(
        wanted=lambda name: _wanted(name, arguments),
        rounds=arguments.rounds,
        quick=arguments.quick,
        say=say,
    )


def _wanted(name: str, arguments: Namespace) -> bool:
    return arguments.rows is None or name.startswith(tuple(arguments.rows))


def _workloads(arguments: Namespace) -> list[Workload]:
    chosen = [WORKLOADS[name] for name in WORKLOADS if name in arguments.only]
    for workload in chosen:
        if workload.batch_size % arguments.ranks:
            raise SystemExit(
                f"the batch of {workload.name}, {workload.batch_size}, does not divide by "
                f"{arguments.ranks} ranks, and DDP would weight its ranks wrongly"
            )
    return [workload.quick() for workload in chosen] if arguments.quick else chosen


def _parse(words: list[str]) -> Namespace:
    parser = ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    names = [*WORKLOADS, _PARTS, _EXCHANGE, _MEMORY, _CHECKPOINTS]
    parser.add_argument("--only", nargs="+", choices=names, help="leave out all others")
    parser.add_argument("--rows", nargs="+", help="how the names of contenders to run begin")
    parser.add_argument("--ranks", type=int, default=2, help="and threads, of parallel rows [2]")
    parser.add_argument("--rounds", type=int, help="at most, as time allows [3, quick: 1]")
    parser.add_argument("--quick", action="store_true", help="a smoke run: numbers mean nothing")
    parser.add_argument("--output", type=Path, help="the report's folder [benchmarks/reports]")
    arguments = parser.parse_args(words)
    arguments.only = arguments.only or (_QUICK[0] if arguments.quick else names)
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    return arguments


if __name__ == "__main__":
    sys.exit(main())
