"""The command line that all contenders share."""

from argparse import ArgumentParser, Namespace
from dataclasses import replace

from benchmarks.workloads import IN_PARTS, WORKLOADS, Workload


def parse_arguments() -> Namespace:
    """What a contender is told to do; `workloads_of` reads its workloads from it."""
    parser = ArgumentParser()
    parser.add_argument("--workloads", required=True, help="names, separated by commas")
    parser.add_argument("--threads", type=int, default=1, help="threads a rank")
    parser.add_argument("--tuned", action="store_true", help="all that a careful user would set")
    parser.add_argument("--bound", action="store_true", help="DDP alone: a core for each rank")
    parser.add_argument("--strategy", default="single", help="ours alone")
    parser.add_argument(
        "--options", default="{}", help="ours alone: the strategy's options, as JSON"
    )
    parser.add_argument(
        "--unconnected", action="store_true", help="ours alone: ranks that exchange nothing"
    )
    parser.add_argument("--hook", choices=("fp16", "powersgd"), help="DDP alone: what travels")
    parser.add_argument("--rank", type=int, default=2, help="DDP alone: of PowerSGD's matrices")
    parser.add_argument("--ours", action="store_true", help="Horovod alone: its API over Phalanx")
    parser.add_argument("--ranks", type=int, default=2, help="PyDTNN alone, which starts its own")
    parser.add_argument(
        "--steps", help="an epoch of each workload, separated by commas [the workload's own]"
    )
    parser.add_argument("--quick", action="store_true", help="a few steps, to see that it runs")
    return parser.parse_args()


def workloads_of(arguments: Namespace) -> list[Workload]:
    every = WORKLOADS | IN_PARTS
    chosen = [every[name] for name in arguments.workloads.split(",")]
    if arguments.steps is not None:
        steps = [int(count) for count in arguments.steps.split(",")]
        pairs = zip(chosen, steps, strict=True)
        chosen = [replace(workload, steps=count) for workload, count in pairs]
    return [workload.quick() for workload in chosen] if arguments.quick else chosen
