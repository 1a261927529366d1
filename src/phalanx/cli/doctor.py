"""`phalanx doctor`: whether what trainings need is there and works."""

from typing import Annotated

import typer

from phalanx.comm.launch.job import Job, is_first_rank
from phalanx.comm.launch.mpiexec import slots_of_hosts
from phalanx.comm.launch.preflight import check_ranks
from phalanx.comm.launch.process import available_cores
from phalanx.errors import UsageError
from phalanx.observe.doctor.examination import GROUPS, OF_DEVICES, examine
from phalanx.observe.doctor.scope import Scope, allocated_hosts, job_here

Ranks = Annotated[
    int | None,
    typer.Option(
        "--ranks", "-n", help="Ranks to start for the self-test [default: one a core, 2 to 4]."
    ),
]
Hosts = Annotated[
    str | None,
    typer.Option(
        "--hosts", "-H", metavar="HOST[:SLOTS],…", help="Examine these hosts, too, and the network."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for a script.")]
Devices = Annotated[
    bool,
    typer.Option(
        "--devices",
        help="Try out GPUs: every collective and strategy, shards, checkpoints.",
    ),
]
Seconds = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        help="What each check may take [default: 60; 300 with --devices].",
    ),
]
_SECONDS, _SECONDS_OF_DEVICES = 60.0, 300.0


def doctor(
    ranks: Ranks = None,
    hosts: Hosts = None,
    devices: Devices = False,
    as_json: Json = False,
    time_limit: Seconds = None,
) -> None:
    """Look whether all that trainings need is there and works: each line fine, odd or broken.

    * `phalanx doctor` examines this machine, and starts a few ranks that try every collective.
    * `phalanx doctor -H node1,node2` starts them there, and measures the network between them.
    * `phalanx doctor --devices` tries out GPUs, or the same code without any.
    * `mpirun -n 4 phalanx doctor` and `srun --mpi=pmix phalanx doctor` examine the ranks of a job.

    Exits with 0 if nothing is broken, 1 if something is. What is odd works, but not as well as it
    could: it says why, and what to do. docs/doctor.md explains every line.
    """
    usual = _SECONDS_OF_DEVICES if devices else _SECONDS
    scope = _scope(ranks, hosts, usual if time_limit is None else time_limit)
    if isinstance(scope.job, Job):
        # All ranks together, before the first one looks at all else.
        scope.device_report if devices else scope.report  # noqa: B018
    if not is_first_rank():
        return
    from phalanx.cli.output.doctor import print_json, show

    found = examine(scope, OF_DEVICES if devices else GROUPS)
    verdict = (print_json if as_json else show)(found)
    raise typer.Exit(1 if verdict == "broken" else 0)


def _scope(ranks: int | None, hosts: str | None, seconds: float) -> Scope:
    """What to examine; refuses what cannot be."""
    job = job_here()
    if isinstance(job, Job) and (ranks is not None or hosts is not None):
        flag = "--ranks" if hosts is None else "--hosts"
        raise UsageError(f"{flag}: this is a rank of a job, whose ranks are examined: leave it out")
    if not seconds > 0:
        raise UsageError(f"--time-limit must be above 0, not {seconds:g}")
    slots = {} if hosts is None else slots_of_hosts(hosts)
    if hosts is None and ranks is None and job is None:
        slots = allocated_hosts(seconds)
    if hosts is not None and ranks is not None:
        raise UsageError("--ranks does not go with --hosts, which says how many: node1:2,node2:2")
    if ranks is not None:
        check_ranks(ranks, cores=available_cores())
    return Scope(ranks, slots, seconds, job)
