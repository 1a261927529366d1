"""`phalanx run`: start any program on many ranks."""

import itertools
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from phalanx.cli.flags.horovodrun import asked_by_flags
from phalanx.comm.launch.job import current_job
from phalanx.comm.launch.mpiexec import available_slots, launch, mpiexec_command, slots_of_hosts
from phalanx.comm.launch.process import allocator_variables, available_cores
from phalanx.errors import LaunchError, UsageError
from phalanx.settings.table import SETTINGS
from phalanx.wording import flag

#: Variables that ranks on other hosts get without being asked: where programs and libraries are,
#: and how the libraries compute. Nothing else, since an environment also holds passwords and keys.
_EXPORTED = frozenset(
    ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "VIRTUAL_ENV", "CONDA_PREFIX", "TZ", "LANG")
)
#: The same by how they begin.
_EXPORTED_LIKE = (
    *("PHALANX_", "HOROVOD_", "PYTHON", "LC_", "MALLOC_", "OMP_", "MKL_", "OPENBLAS_", "KMP_"),
    *(
        "TORCH_",
        "PYTORCH_",
        "KERAS_",
        "TF_",
        "JAX_",
        "XLA_",
        "CUDA_",
        "NCCL_",
        "GLOO_",
        "UCX_",
        "FI_",
    ),
)
#: Which of these are about this host alone, or about this launcher.
_STAY_HERE = frozenset(
    ("PHALANX_MPIEXEC", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
)
#: Parts of names that are secrets', whatever they begin with.
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE", re.I)

Command = Annotated[
    list[str],
    typer.Argument(metavar="COMMAND…", help="The program and its arguments, passed on preserved."),
]
Ranks = Annotated[
    int | None,
    typer.Option(
        "--ranks",
        "-n",
        "-np",
        "--num-proc",
        help="Ranks to start [default: one a core, or the hosts' slots].",
    ),
]
Hosts = Annotated[
    str | None,
    typer.Option(
        "--hosts", "-H", metavar="HOST:SLOTS,…", help="Hosts, and how many ranks each takes."
    ),
]
Exports = Annotated[
    list[str] | None,
    typer.Option(
        "--export",
        "-x",
        metavar="NAME[=VALUE]",
        help="One more environment variable for the ranks, as it is here or with a value; as often "
        "as needed. Ranks on other hosts (--hosts) get PATH, LD_LIBRARY_PATH, and those of Python, "
        "torch, Keras, TensorFlow, JAX, CUDA, NCCL and threads, and no others.",
    ),
]
Bind = Annotated[bool, typer.Option(help="Give each rank cores of its own.")]
Threads = Annotated[
    int | None,
    typer.Option(
        help="Threads a rank [default: OMP_NUM_THREADS if set, else a rank's share of the cores]."
    ),
]
Horovod = Annotated[
    bool, typer.Option(help="Have phalanx.horovod stand for `import horovod` in the ranks.")
]
#: Flags of Python, perhaps several in one, that have it ignore PYTHONPATH.
_IGNORES_PATH = re.compile(r"-[bBdiOPqsSuvx]*[EI][bBdEiIOPqsSuvx]*")
#: What the ranks' PYTHONPATH begins with then.
_HOROVOD = Path(__file__).parents[1] / "horovod" / "python_path"


def run(
    context: typer.Context,
    command: Command,
    ranks: Ranks = None,
    hosts: Hosts = None,
    bind: Bind = True,
    threads: Threads = None,
    export: Exports = None,
    horovod: Horovod = False,
) -> None:
    """Run any program on many ranks, with the settings of `phalanx train`.

    * `phalanx run -n 4 python train.py --epochs 3` starts four ranks of a script.
    * `phalanx run -n 8 -H node1:4,node2:4 python train.py` starts them on two hosts.
    * `phalanx run -x WANDB_MODE=offline -x HF_HOME …` passes variables on to them.
    * `phalanx run --horovod -n 4 python train.py` starts a script that imports horovod.
    * `phalanx run --min-np 2 -n 4 …` goes on in `hvd.elastic.run`, down to two, without lost ranks.

    A rank that fails ends the job, and its exit code is the job's. (A script that uses mpi4py
    without Phalanx needs `python -m mpi4py train.py` for that.)
    """
    _check_outside()
    asked = asked_by_flags(context)
    hosts = asked.hosts_or(hosts)
    slots = None if hosts is None else slots_of_hosts(hosts)
    most = available_slots() if slots is None else sum(slots.values())
    ranks = asked.elastic.ranks(ranks, most=most)
    if slots is not None and ranks > most:
        raise UsageError(f"{ranks} ranks do not fit in the {most} slots of --hosts {hosts}")
    if slots is None:
        _check_command(command)
    on_a_host = ranks if slots is None else max(slots.values())
    exports = _environment(threads, ranks=on_a_host, forward=slots is not None)
    exports |= asked.variables | _asked_for(export or [])
    if horovod:
        exports["PYTHONPATH"] = _with_horovod(command)
    how: Any = {"bind": bind, "hosts": hosts, "survive": asked.elastic.survives}
    if asked.verbose:
        _show([*mpiexec_command(ranks, exports=exports, **how)[0], *command])
    raise typer.Exit(launch(ranks, command, exports=exports, **how))


def _show(command: list[str]) -> None:
    print(shlex.join(command), file=sys.stderr)


def _check_outside() -> None:
    if current_job() is not None:
        raise LaunchError(
            "`phalanx run` starts the ranks of a job, and this is one of them already: leave it out"
        )


def _environment(threads: int | None, *, ranks: int, forward: bool) -> dict[str, str]:
    """What is set for the ranks: their threads and their allocator; a user's own variables win."""
    SETTINGS["threads"].check(threads, spell=flag)
    share = max(1, available_cores() // max(1, ranks))
    given = os.environ.get("OMP_NUM_THREADS", str(share)) if threads is None else str(threads)
    variables = allocator_variables() | {"OMP_NUM_THREADS": given}
    # TensorFlow asks nobody but this one, and else starts a thread for every core.
    variables["TF_NUM_INTRAOP_THREADS"] = os.environ.get("TF_NUM_INTRAOP_THREADS", given)
    if forward:
        named = {name: value for name, value in os.environ.items() if _is_exported(name)}
        variables = named | variables
    return variables


def _is_exported(name: str) -> bool:
    if name in _STAY_HERE or _SECRET.search(name):
        return False
    return name in _EXPORTED or name.startswith(_EXPORTED_LIKE)


def _asked_for(entries: Sequence[str]) -> dict[str, str]:
    """The variables that `-x NAME` and `-x NAME=VALUE` name."""
    variables = {}
    for entry in entries:
        name, given, value = entry.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise UsageError(f"--export {entry}: '{name}' is no name of a variable")
        if not given and name not in os.environ:
            raise UsageError(f"--export {name}: it is not set here; give it a value: {name}=VALUE")
        variables[name] = value if given else os.environ[name]
    return variables


def _with_horovod(command: list[str]) -> str:
    """PYTHONPATH, with what has `import horovod` find ours before what a user has there."""
    _check_path_is_read(command)
    return os.pathsep.join(filter(None, [str(_HOROVOD), os.environ.get("PYTHONPATH", "")]))


def _check_path_is_read(command: list[str]) -> None:
    """Refuse flags of Python that would have it overlook PYTHONPATH, and so horovod."""
    flags = itertools.takewhile(lambda part: part.startswith("-"), command[1:])
    blind = [one for one in flags if _IGNORES_PATH.fullmatch(one)]
    if Path(command[0]).name.startswith("python") and blind:
        raise UsageError(f"--horovod works by PYTHONPATH, which {blind[0]} has Python ignore")


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
