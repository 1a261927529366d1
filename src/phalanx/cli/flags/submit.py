"""The flags of `phalanx submit`: what Slurm is asked for, in Slurm's own words, and the job's
environment."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from phalanx.cli.flags.options import parameter, with_parameters
from phalanx.errors import UsageError
from phalanx.settings.intervals import parse_duration
from phalanx.slurm.script import Environment, check_name, check_own, option
from phalanx.slurm.times import parse_time, slurm_time

Launch = Literal["auto", "srun", "phalanx"]
_GRACE = 60


def _flag(
    kind: Any, spelled: str, about: str, *, metavar: str | None = None, panel: str = "Slurm"
) -> Any:
    shown = typer.Option(
        spelled, metavar=metavar, help=about, rich_help_panel=panel, show_default=False
    )
    return Annotated[kind, shown]


_PANEL = "The job"
_FLAGS: dict[str, Any] = {
    "nodes": _flag(int | None, "--nodes", "Nodes.", metavar="N"),
    "ntasks": _flag(
        int | None,
        "--ntasks",
        "Tasks, which are ranks [default: the command's --ranks, or 1]",
        metavar="N",
    ),
    "cpus_per_task": _flag(
        int | None, "--cpus-per-task", "Cores for a rank, and threads.", metavar="N"
    ),
    "time": _flag(
        str | None,
        "--time",
        "How long it may run: minutes, H:MM:SS or D-HH as Slurm has it, or 30m, 2h.",
        metavar="TIME",
    ),
    "partition": _flag(str | None, "--partition", "The partition.", metavar="NAME"),
    "mem": _flag(str | None, "--mem", "Memory a node, such as 16G.", metavar="SIZE"),
    "account": _flag(str | None, "--account", "Whom to charge.", metavar="NAME"),
    "job_name": _flag(
        str | None, "--job-name", "[default: phalanx-train, -sweep or -run]", metavar="NAME"
    ),
    "sbatch": _flag(
        list[str] | None,
        "--sbatch",
        "Any other option of sbatch, as often as needed: --sbatch=--constraint=avx512.",
        metavar="OPTION",
    ),
    "module": _flag(
        list[str] | None,
        "--module",
        "A module to load, as often as needed.",
        metavar="NAME",
        panel=_PANEL,
    ),
    "venv": _flag(
        Path | None,
        "--venv",
        "A virtual environment to activate [default: that of this command]",
        metavar="FOLDER",
        panel=_PANEL,
    ),
    "setup": _flag(
        list[str] | None,
        "--setup",
        "A line of shell to run before, such as 'conda activate mine'; as often as needed.",
        metavar="LINE",
        panel=_PANEL,
    ),
    "launch": _flag(
        str | None,
        "--launch",
        "Who starts the ranks: srun (by PMIx), phalanx (by mpiexec), or auto, which is srun for "
        "`train` where it has PMIx [default: auto]",
        metavar="auto|srun|phalanx",
        panel=_PANEL,
    ),
    "requeue": _flag(
        bool | None,
        "--requeue/--no-requeue",
        "Go back into the queue when the time is over or the job is preempted, and on from the "
        "checkpoint in the next turn [default: for train and sweep]",
        panel=_PANEL,
    ),
    "grace": _flag(
        str | None,
        "--grace",
        f"How long before its end the job is told, for a step and a checkpoint "
        f"[default: {_GRACE}s]",
        metavar="60s",
        panel=_PANEL,
    ),
    "dry_run": _flag(bool, "--dry-run", "Print the script, and submit nothing.", panel=_PANEL),
    "wait": _flag(
        bool,
        "--wait",
        "Show the job's output until it ends, and exit with its exit code.",
        panel=_PANEL,
    ),
}
_Command = Annotated[
    list[str],
    typer.Argument(
        metavar="train|sweep|run …", help="The command, with its flags.", show_default=False
    ),
]


@dataclass(frozen=True)
class Asked:
    """What a job is asked for; what depends on its command is left open."""

    command: list[str]
    nodes: int | None
    ntasks: int | None
    cpus_per_task: int | None
    #: Seconds.
    time: int | None
    #: Options of sbatch that are passed on as they are.
    options: list[str]
    job_name: str | None
    environment: Environment
    launch: Launch
    requeue: bool | None
    #: Seconds; None if nobody has said.
    grace: int | None
    dry_run: bool
    wait: bool

    @property
    def seconds_before(self) -> int:
        """How long before its end the job is told."""
        return _GRACE if self.grace is None else self.grace

    @property
    def resources(self) -> list[str]:
        """What Slurm is asked for besides tasks, as options of sbatch."""
        asked = {
            "nodes": self.nodes,
            "cpus-per-task": self.cpus_per_task,
            "time": None if self.time is None else slurm_time(self.time),
        }
        given = [option(name, value) for name, value in asked.items() if value is not None]
        return given + self.options

    def name_of(self, command: str) -> str:
        """The job's name."""
        return self.job_name or f"phalanx-{command}"


def with_submission(command: Callable[[Asked, typer.Context], None]) -> Callable[..., None]:
    """A command whose flags are those of a job."""

    def run(context: typer.Context, **given: Any) -> None:
        command(_asked(given), context)

    parameters = [parameter("context", typer.Context), parameter("command", _Command, default=...)]
    parameters += [
        parameter(name, kind, default=False if name in ("dry_run", "wait") else None)
        for name, kind in _FLAGS.items()
    ]
    return with_parameters(run, parameters, like=command)


def _asked(given: dict[str, Any]) -> Asked:
    for name in ("nodes", "ntasks", "cpus_per_task"):
        if given[name] is not None and given[name] < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be at least 1, not {given[name]}")
    launch: Any = given["launch"] or "auto"
    if launch not in get_args(Launch):
        raise UsageError(f"--launch must be auto, srun or phalanx, not '{launch}'")
    if given["dry_run"] and given["wait"]:
        raise UsageError("--dry-run submits nothing to --wait for: leave one out")
    plain = ("partition", "mem", "account")
    options = [option(name, given[name]) for name in plain if given[name] is not None]
    name = given["job_name"]
    return Asked(
        command=given["command"],
        nodes=given["nodes"],
        ntasks=given["ntasks"],
        cpus_per_task=given["cpus_per_task"],
        time=None if given["time"] is None else parse_time(given["time"]),
        options=[*options, *map(check_own, given["sbatch"] or ())],
        job_name=None if name is None else check_name(name),
        environment=_environment(given),
        launch=launch,
        requeue=given["requeue"],
        grace=_grace(given["grace"]),
        dry_run=given["dry_run"],
        wait=given["wait"],
    )


def _environment(given: dict[str, Any]) -> Environment:
    venv: Path | None = given["venv"]
    if venv is not None and not given["dry_run"] and not (venv / "bin" / "activate").exists():
        raise UsageError(f"--venv {venv}: there is no {venv / 'bin' / 'activate'}")
    if venv is None and sys.prefix != sys.base_prefix:
        venv = Path(sys.prefix)
    return Environment(
        modules=given["module"] or (),
        venv=None if venv is None else venv.absolute(),
        setup=given["setup"] or (),
        threads=given["cpus_per_task"],
    )


def _grace(text: str | None) -> int | None:
    seconds = None if text is None else parse_duration(text, "--grace")
    if text is not None and not seconds:
        raise UsageError(f"--grace {text}: a checkpoint needs some time")
    return None if seconds is None else round(seconds)
