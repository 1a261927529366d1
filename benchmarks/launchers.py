"""How contenders are started: one process, torchrun, `phalanx run`, or mpiexec as that calls it."""

import os
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from phalanx.comm.launch.mpiexec import mpiexec_command

ROOT = Path(__file__).parent.parent


class ContenderError(Exception):
    """A contender that did not get to its end; `details` is what it said."""

    def __init__(self, cause: str, details: str = "") -> None:
        super().__init__(cause)
        self.details = details


@dataclass(frozen=True)
class Command:
    """A command line, and what it changes in the environment."""

    argv: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)

    def with_arguments(self, *arguments: str) -> "Command":
        return Command((*self.argv, *arguments), self.environment)

    def __str__(self) -> str:
        """As a user would type it, wherever Python and MPI are installed."""
        settings = [f"{name}={value}" for name, value in sorted(self.environment.items())]
        program, *rest = self.argv
        words = [Path(program).name, *("python" if w == sys.executable else w for w in rest)]
        return " ".join([*settings, shlex.join(words)])


def plain(module: str, *, threads: int, environment: dict[str, str] | None = None) -> Command:
    """One process with so many threads."""
    settings = {"OMP_NUM_THREADS": str(threads)} | (environment or {})
    return Command((sys.executable, "-m", module, "--threads", str(threads)), settings)


def torchrun(ranks: int, module: str, *, environment: dict[str, str] | None = None) -> Command:
    """So many ranks of one thread, as torchrun starts them."""
    settings = {"OMP_NUM_THREADS": "1"} | (environment or {})
    runner = (sys.executable, "-m", "torch.distributed.run", "--standalone")
    return Command((*runner, "--nproc-per-node", str(ranks), "-m", module), settings)


def mpiexec(ranks: int, module: str, *, bind: bool = True) -> Command:
    """So many ranks, each on cores of its own unless `bind` is false."""
    command, environment = mpiexec_command(ranks, bind=bind)
    changed = {name: value for name, value in environment.items() if os.environ.get(name) != value}
    return Command((*command, sys.executable, "-m", module), changed)


def phalanx_run(ranks: int, module: str) -> Command:
    """So many ranks of any script, as `phalanx run` starts them."""
    runner = (sys.executable, "-m", "phalanx", "run", "-n", str(ranks), "--threads", "1")
    return Command((*runner, sys.executable, "-m", module))


def run(command: Command, *, timeout: float) -> list[str]:
    """The lines that a command prints; ContenderError if it fails or takes too long."""
    with subprocess.Popen(
        command.argv,
        env=os.environ | command.environment,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise ContenderError(f"took longer than {timeout:.0f} s: {command}") from error
        finally:
            _end(process)
    if process.returncode != 0:
        raise ContenderError(f"ended with code {process.returncode}: {command}", errors[-3000:])
    return output.splitlines()


def _end(process: "subprocess.Popen[str]") -> None:
    """Ask a launcher to end its ranks, and do not wait for ever."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
