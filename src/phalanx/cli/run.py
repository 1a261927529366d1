"""`phalanx run`: start any program on many ranks."""

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

from phalanx.comm.launch.job import current_job
from phalanx.comm.launch.mpiexec import available_slots, launch, slots_of_hosts
from phalanx.comm.launch.process import allocator_variables, available_cores
from phalanx.errors import LaunchError, UsageError
from phalanx.settings.table import SETTINGS
from phalanx.wording import flag

#: How variables begin that are about this host, shell or job, and so not for ranks elsewhere.
_STAY_HERE = (
    *("HOSTNAME", "PWD", "OLDPWD", "SHLVL", "TMPDIR", "DISPLAY", "BASH_FUNC_", "_"),
    *("SSH_", "XDG_", "SLURM_", "PMI_", "PMIX_", "PRTE_", "OMPI_"),
)

Command = Annotated[
    list[str],
    typer.Argument(metavar="COMMAND…", help="The program and its arguments, passed on preserved."),
]
Ranks = Annotated[
    int | None,
    typer.Option(
        "--ranks", "-n", "-np", help="Ranks to start [default: one a core, or the hosts' slots]."
    ),
]
Hosts = Annotated[
    str | None,
    typer.Option(
        "--hosts", "-H", metavar="HOST:SLOTS,…", help="Hosts, and how many ranks each takes."
    ),
]
Bind = Annotated[bool, typer.Option(help="Give each rank cores of its own.")]
Threads = Annotated[
    int | None,
    typer.Option(
        help="Threads a rank [default: OMP_NUM_THREADS if set, else a rank's share of the cores]."
    ),
]


def run(
    command: Command,
    ranks: Ranks = None,
    hosts: Hosts = None,
    bind: Bind = True,
    threads: Threads = None,
) -> None:
    """Run any program on many ranks, with the settings of `phalanx train`.

    * `phalanx run -n 4 python train.py --epochs 3` starts four ranks of a script.
    * `phalanx run -n 8 -H node1:4,node2:4 python train.py` starts them on two hosts.

    A rank that fails ends the job, and its exit code is the job's. (A script that uses mpi4py
    without Phalanx needs `python -m mpi4py train.py` for that.)
    """
    if current_job() is not None:
        raise LaunchError(
            "`phalanx run` starts the ranks of a job, and this is one of them already: leave it out"
        )
    slots = None if hosts is None else slots_of_hosts(hosts)
    most = available_slots() if slots is None else sum(slots.values())
    ranks = most if ranks is None else ranks
    if slots is not None and ranks > most:
        raise UsageError(f"{ranks} ranks do not fit in the {most} slots of --hosts {hosts}")
    if slots is None:
        _check_command(command)
    on_a_host = ranks if slots is None else max(slots.values())
    exports = _environment(threads, ranks=on_a_host, forward=slots is not None)
    raise typer.Exit(launch(ranks, command, bind=bind, hosts=hosts, exports=exports))


def _environment(threads: int | None, *, ranks: int, forward: bool) -> dict[str, str]:
    """What is set for the ranks: their threads and their allocator; a user's own variables win."""
    SETTINGS["threads"].check(threads, spell=flag)
    share = max(1, available_cores() // max(1, ranks))
    given = os.environ.get("OMP_NUM_THREADS", str(share)) if threads is None else str(threads)
    variables = allocator_variables() | {"OMP_NUM_THREADS": given}
    # TensorFlow asks nobody but this one, and else starts a thread for every core.
    variables["TF_NUM_INTRAOP_THREADS"] = os.environ.get("TF_NUM_INTRAOP_THREADS", given)
    if forward:
        named = {
            name: value for name, value in os.environ.items() if not name.startswith(_STAY_HERE)
        }
        variables = named | variables
    return variables


def _check_command(command: list[str]) -> None:
    """Refuse, once, what every rank would complain about."""
    program = command[0]
    if shutil.which(program) is None:
        fix = f"; try `python {program}`" if Path(program).is_file() else ""
        raise UsageError(f"there is no program '{program}' to run{fix}")
    script = command[1] if len(command) > 1 else "-"
    is_python = Path(program).name.startswith("python")
    if is_python and not script.startswith("-") and not Path(script).exists():
        raise UsageError(f"there is no script '{script}' in {Path.cwd()}")
