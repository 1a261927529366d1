"""Ours and DDP between hosts, over links of several speeds, interleaved.

`python -m benchmarks.network` makes hosts (network namespaces) on this machine, shapes the links
between them, and writes a dated report. It must be run as root, and takes about an hour; `--links`,
`--models` and `--contenders` choose among what it does. `--keep FILE` adds measurements to a file,
and reports all that is in it: several shorter runs make one report.
"""

import os
import shlex
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from benchmarks.network.contenders import CONTENDERS
from benchmarks.network.links import LINKS
from benchmarks.network.report import Run, mismatches, render
from benchmarks.network.rounds import Bench, Found, read
from benchmarks.workloads import WORKLOADS
from tests.hosts.namespaces import NoHostsError
from tests.hosts.network import network

_REPORTS = Path(__file__).parents[1] / "reports"
#: Models, each with as many steps an epoch as it takes for what comes once an epoch not to count.
_MODELS = {"simplecnn": 40, "resnet20": 8, "vgg11": 4}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 when a contender failed or trained something else than the others, 2 where there
    can be no hosts."""
    words = list(sys.argv[1:] if argv is None else argv)
    arguments = _parse(words)
    if os.geteuid() != 0:
        print("hosts with shaped links need root: sudo make bench-network", file=sys.stderr)
        return 2
    try:
        found, bench = _measure(arguments)
    except NoHostsError as error:
        print(f"no hosts here: {error}", file=sys.stderr)
        return 2
    problems = [f"{name}: {cause}" for name, cause in bench.failed.items()] + mismatches(found)
    command = shlex.join(["python", "-m", "benchmarks.network", *words])
    run = Run(date.today(), command, arguments.ranks, found, problems)
    text = render(run)
    print("\n" + text)
    folder = arguments.output or (None if arguments.quick else _REPORTS)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{run.day.isoformat()}-network.md"
        file.write_text(text, encoding="utf-8")
        print(f"written to {file}")
    return 1 if problems else 0


def _measure(arguments: Namespace) -> tuple[list[Found], Bench]:
    started = time.perf_counter()

    def say(text: str) -> None:
        print(f"[{time.perf_counter() - started:4.0f} s] {text}", flush=True)

    steps = ",".join(str(_MODELS.get(name, WORKLOADS[name].steps)) for name in arguments.models)
    words = ["--workloads", ",".join(arguments.models), "--steps", steps]
    words += ["--quick"] * arguments.quick
    found = read(arguments.keep) if arguments.keep else []
    with network(len(arguments.ranks)) as hosts:
        bench = Bench(hosts, ranks=arguments.ranks, words=words, say=say)
        links = [LINKS[name] for name in arguments.links]
        contenders = [CONTENDERS[name] for name in arguments.contenders]
        for one in bench.run(links, contenders, rounds=arguments.rounds):
            found.append(one)
            if arguments.keep:
                with arguments.keep.open("a", encoding="utf-8") as file:
                    file.write(one.line() + "\n")
    return found, bench


def _parse(words: list[str]) -> Namespace:
    parser = ArgumentParser(prog="python -m benchmarks.network", description=__doc__)
    parser.add_argument("--links", nargs="+", choices=LINKS, default=[*LINKS])
    parser.add_argument("--models", nargs="+", choices=WORKLOADS, default=[*_MODELS])
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=[*CONTENDERS])
    parser.add_argument(
        "--ranks", nargs="+", type=int, default=[1, 1], help="on each host, at least two [1 1]"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="a file of measurements to add to")
    parser.add_argument("--quick", action="store_true", help="a smoke run: numbers mean nothing")
    parser.add_argument("--output", type=Path, help="the report's folder [benchmarks/reports]")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
