"""The flags of `horovodrun`, for `phalanx run`: taken with the same effect, or refused, and why.

Most become environment variables, which the ranks or Open MPI read. Those that ask for what is so
anyway (`--mpi`, `--no-autotune`) are taken, too.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from phalanx.cli.flags.elastic import Elastic, elastic
from phalanx.cli.flags.options import parameter, with_parameters
from phalanx.comm.launch.mpiexec import mpiexec_command
from phalanx.errors import UsageError

_PANEL = "Flags of horovodrun"
_VALUES = "phalanx.horovodrun"
Variables = Callable[[Any], Mapping[str, str]]


@dataclass(frozen=True)
class _Flag:
    """A flag that is taken, and the variables that do what it asks for."""

    spelled: tuple[str, ...]
    kind: Any
    text: str
    variables: Variables = field(default=lambda _value: {})


def _variable(name: str) -> Variables:
    return lambda value: {name: str(int(value) if isinstance(value, bool) else value)}


def _interfaces(names: list[str]) -> Mapping[str, str]:
    """For MPI itself, and for the daemons of Open MPI 4 and 5 that start it."""
    _check_open_mpi("--network-interfaces")
    variables = ("OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include")
    return dict.fromkeys((*variables, "PRTE_MCA_prte_if_include"), ",".join(names))


def _tcp(wanted: bool) -> Mapping[str, str]:
    _check_open_mpi("--tcp")
    return {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,tcp"} if wanted else {}


_ANYWAY = "As it is anyway."
_TAKEN = (
    _Flag(("--hostfile", "-hostfile"), Path, "A file of hosts, a line each: NAME slots=N."),
    _Flag(("--ssh-port", "-p"), int, "The port of SSH on all hosts."),
    _Flag(("--ssh-identity-file", "-i"), Path, "The key for SSH."),
    _Flag(
        ("--network-interfaces", "--network-interface"),
        list[str],
        "Interfaces for MPI, with commas between them or one by one.",
        _interfaces,
    ),
    _Flag(("--tcp",), bool, "Let MPI use TCP alone.", _tcp),
    _Flag(
        ("--fusion-threshold-mb",),
        int,
        "Megabytes up to which tensors travel together.",
        lambda value: {"HOROVOD_FUSION_THRESHOLD": str(value << 20)},
    ),
    _Flag(
        ("--cycle-time-ms",),
        float,
        "Milliseconds between two looks of the background thread.",
        _variable("HOROVOD_CYCLE_TIME"),
    ),
    _Flag(
        ("--timeline-filename",),
        Path,
        "Where rank 0 writes a timeline.",
        _variable("HOROVOD_TIMELINE"),
    ),
    _Flag(
        ("--timeline-mark-cycles/--no-timeline-mark-cycles",),
        bool,
        "Mark rounds of negotiation in it.",
        _variable("HOROVOD_TIMELINE_MARK_CYCLES"),
    ),
    _Flag(
        ("--no-stall-check/--stall-check",),
        bool,
        "Do not report tensors that some ranks wait for.",
        _variable("HOROVOD_STALL_CHECK_DISABLE"),
    ),
    _Flag(
        ("--stall-check-warning-time-seconds",),
        int,
        "Report them after so long.",
        _variable("HOROVOD_STALL_CHECK_TIME_SECONDS"),
    ),
    _Flag(
        ("--stall-check-shutdown-time-seconds",),
        int,
        "End the job after so long.",
        _variable("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"),
    ),
    _Flag(
        ("--min-np", "--min-num-proc"),
        int,
        "Let ranks go on without lost ones (hvd.elastic.run), down to so many.",
        _variable("PHALANX_MIN_NP"),
    ),
    _Flag(("--max-np", "--max-num-proc"), int, "Start no more ranks; none are added later."),
    _Flag(("--reset-limit",), int, "How often they may do so.", _variable("PHALANX_RESET_LIMIT")),
    _Flag(("--elastic-timeout",), int, "Taken: there are no new hosts to wait for."),
    _Flag(("--verbose",), bool, "Print the command that starts the ranks."),
    _Flag(("--mpi",), bool, _ANYWAY),
    _Flag(("--disable-cache",), bool, _ANYWAY),
    _Flag(("--no-autotune",), bool, _ANYWAY),
    _Flag(("--no-hierarchical-allreduce",), bool, _ANYWAY),
    _Flag(("--no-hierarchical-allgather",), bool, _ANYWAY),
    _Flag(("--no-mpi-threads-disable",), bool, _ANYWAY),
)
_NO_NEW_HOSTS = "ranks can be lost (--min-np), but none are added: give -np and --hosts"
_OVER_MPI = "everything goes over MPI: leave it out"
_TUNED = "there is nothing to tune by itself: leave it out"
_NO_LOG = "there is no log, only warnings: leave it out"
_BY_VARIABLES = "set Open MPI's parameters by environment variables (OMPI_MCA_…, PRTE_MCA_…)"
_ON_A_HOST = "ranks of one host add up gradients first wherever that is faster: leave it out"
#: Flags without a value, and with one, that are refused, and why.
_REFUSED_SWITCHES = {
    "--gloo": _OVER_MPI, "--jsrun": "ranks are started by mpiexec: leave it out",
    "--autotune": _TUNED, "--hierarchical-allreduce": _ON_A_HOST,
    "--hierarchical-allgather": _ON_A_HOST, "--log-with-timestamp": _NO_LOG,
    "--log-without-timestamp": _NO_LOG, "--log-hide-timestamp": _NO_LOG,
    "--no-log-hide-timestamp": _NO_LOG,
    "--mpi-threads-disable": "threads of MPI are used where MPI has them: leave it out",
    "--prefix-output-with-timestamp": "output is passed on as it is: pipe it through `ts`",
    "-prefix-timestamp": "output is passed on as it is: pipe it through `ts`",
}  # fmt: skip
_REFUSED = {
    "--slots-per-host": _NO_NEW_HOSTS, "--host-discovery-script": _NO_NEW_HOSTS,
    "--blacklist-cooldown-range": _NO_NEW_HOSTS,
    "--autotune-log-file": _TUNED, "--autotune-warmup-samples": _TUNED,
    "--autotune-steps-per-sample": _TUNED, "--autotune-bayes-opt-max-samples": _TUNED,
    "--autotune-gaussian-process-noise": _TUNED,
    "--cache-capacity": "what was negotiated is not cached: leave it out",
    "--start-timeout": "mpiexec decides how long it waits for hosts: leave it out",
    "--output-filename": "redirect the output of `phalanx run` itself",
    "--config-file": "give the flags themselves", "--mpi-args": _BY_VARIABLES,
    "--binding-args": "use --bind or --no-bind", "--num-nccl-streams": _OVER_MPI,
    "--thread-affinity": "use --bind or --no-bind", "--gloo-timeout-seconds": _OVER_MPI,
    "--log-level": _NO_LOG,
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What flags of horovodrun ask for."""

    #: For the ranks and for mpiexec.
    variables: dict[str, str]
    #: The hosts of --hostfile, as --hosts has them.
    hosts: str | None
    elastic: Elastic
    verbose: bool

    def hosts_or(self, given: str | None) -> str | None:
        """Those hosts, or the given ones; both would contradict each other."""
        if given is not None and self.hosts is not None:
            raise UsageError("--hosts and --hostfile say the same thing: give one of them")
        return self.hosts if given is None else given


def asked_by_flags(context: typer.Context) -> Asked:
    """What the flags of a line ask for, or a UsageError about those that cannot be."""
    given: Mapping[str, Any] = context.meta[_VALUES]
    for name, why in (_REFUSED_SWITCHES | _REFUSED).items():
        if given.get(_key(name)) is not None:
            raise UsageError(f"{name} of horovodrun is not for `phalanx run`: {why}")
    variables: dict[str, str] = {}
    for one in _TAKEN:
        value = given.get(_key(one.spelled[0]))
        if value is not None and value not in ((), []):
            variables |= one.variables(value)
    variables |= _remote_shell(given.get("hvd_ssh_port"), given.get("hvd_ssh_identity_file"))
    file = given.get("hvd_hostfile")
    hosts = None if file is None else hosts_in(file)
    lasting = elastic({name.removeprefix("hvd_"): value for name, value in given.items()})
    return Asked(variables, hosts, lasting, verbose=bool(given.get("hvd_verbose")))


def hosts_in(file: Path) -> str:
    """The hosts of a file with lines `name slots=N`, as `name:N,name:N`."""
    try:
        lines = [line.partition("#")[0].split() for line in file.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--hostfile {file} cannot be read: {error}") from None
    hosts = []
    for name, *more in filter(None, lines):
        slots = more[0].removeprefix("slots=") if more else "1"
        if len(more) > 1 or not slots.isdecimal() or (more and not more[0].startswith("slots=")):
            raise UsageError(f"--hostfile {file}: '{name} {' '.join(more)}' is no `name slots=N`")
        hosts.append(f"{name}:{slots}")
    if not hosts:
        raise UsageError(f"--hostfile {file} names no host")
    return ",".join(hosts)


def _remote_shell(port: int | None, key: Path | None) -> dict[str, str]:
    """How Open MPI 4 and 5 reach other hosts."""
    if port is None and key is None:
        return {}
    _check_open_mpi("--ssh-port and --ssh-identity-file")
    options = [] if port is None else ["-p", str(port)]
    options += [] if key is None else ["-i", str(key)]
    names = ("PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent")
    return {name: " ".join([os.environ.get(name, "ssh"), *options]) for name in names}


def _check_open_mpi(flag: str) -> None:
    if "-x" not in mpiexec_command(1)[0]:
        raise UsageError(f"{flag} of horovodrun needs Open MPI, and this mpiexec is another's")


class RunCommand(TyperCommand):
    """A command that takes the flags of horovodrun, too; `asked_by_flags` has their values."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [*super().get_params(ctx), *_parameters()]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        names = [name for name in ctx.params if name.startswith("hvd_")]
        ctx.meta[_VALUES] = {name: ctx.params.pop(name) for name in names}
        return rest


def _parameters() -> list[Any]:
    """Flags as typer makes them of a command's parameters; those that are refused are hidden."""

    def command(**_: Any) -> None:
        """Nothing: it lends its parameters."""

    def option(*names: str, **more: Any) -> Any:
        return typer.Option(*names, show_default=False, rich_help_panel=_PANEL, **more)

    shown = [
        parameter(
            _key(one.spelled[0]), Annotated[one.kind | None, option(*one.spelled, help=one.text)]
        )
        for one in _TAKEN
    ]
    for name in _REFUSED_SWITCHES:
        shown.append(parameter(_key(name), Annotated[bool | None, option(name, hidden=True)]))
    for name in _REFUSED:
        kind = tuple[str, str] if name.endswith("-range") else str
        shown.append(parameter(_key(name), Annotated[kind | None, option(name, hidden=True)]))
    build = option(
        "--check-build", "-cb", is_eager=True, callback=_print_build, help="What there is."
    )
    shown.append(parameter("hvd_check_build", Annotated[bool, build], default=False))
    app = typer.Typer(add_completion=False)
    app.command()(with_parameters(command, shown, like=command))
    return list(typer.main.get_command(app).params)


def _key(flag: str) -> str:
    """The name of a flag's value."""
    return "hvd_" + flag.partition("/")[0].lstrip("-").replace("-", "_")


def _print_build(wanted: bool) -> None:
    if not wanted:
        return
    frameworks = {"TensorFlow": "tensorflow", "PyTorch": "torch", "Keras": "keras"}
    have = {shown: find_spec(name) is not None for shown, name in frameworks.items()}
    print("Phalanx, with the interface of Horovod 0.28.1:")
    for title, parts in (
        ("Available Frameworks", have | {"MXNet": False}),
        ("Available Controllers", {"MPI": True, "Gloo": False}),
        ("Available Tensor Operations", {"NCCL": False, "DDL": False, "CCL": False, "MPI": True}),
    ):
        print(
            f"\n{title}:",
            *(f"    [{'X' * has or ' '}] {one}" for one, has in parts.items()),
            sep="\n",
        )
    raise typer.Exit
