"""`phalanx submit`: a command as a Slurm job."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from phalanx.cli.flags.settings import settings_of
from phalanx.cli.flags.submit import Asked, with_submission
from phalanx.cli.flags.sweep import read_sweep
from phalanx.cli.requeue import check_checkpoints
from phalanx.errors import UsageError
from phalanx.runs.folder import read_run_settings
from phalanx.settings.rules import check_settings
from phalanx.settings.table import SETTINGS
from phalanx.slurm import control
from phalanx.slurm.following import Output, follow
from phalanx.slurm.script import batch_script, option, quoted
from phalanx.wording import counted

_NOT = ", or say --no-requeue before the command"


@with_submission
def submit(asked: Asked, context: typer.Context) -> None:
    """Run `phalanx train`, `sweep` or `run` as a Slurm job, and see it to its end.

    * `phalanx submit --ntasks 8 --time 2h train --model resnet20 --dataset cifar10`
    * `phalanx submit --time 8h --wait sweep --vary ranks=1,2,4,8` shows its output as it comes.
    * `phalanx submit --dry-run … train …` prints the script, also where there is no Slurm.

    What the job would refuse is refused here. When its time is over, or others push it aside, a
    training writes a checkpoint, goes back into the queue, and on from there in its next turn.
    """
    script, name = _script(asked, context)
    if asked.dry_run:
        typer.echo(script, nl=False)
        return
    job = control.submit(script)
    output = Path(f"{name}-{job}.out")
    typer.echo(f"job {job}: {name}, output in {output}")
    if asked.wait:
        raise typer.Exit(_wait(job, output))


def _wait(job: str, output: Path) -> int:
    """Pass on what a job prints; its exit code."""
    try:
        end = follow(job, Output(output, sys.stdout.buffer), tell=_say)
    except KeyboardInterrupt:
        _say(f"\njob {job} goes on, its output in {output}; `scancel {job}` ends it")
        return 130
    return end.exit_code


def _say(text: str) -> None:
    typer.echo(text, err=True)


@dataclass(frozen=True)
class _Work:
    """What is known of a command before it runs."""

    name: str
    arguments: list[str]
    #: Ranks that it asks for, if it does.
    ranks: int | None
    #: Who else starts its ranks, if `srun` cannot, and why.
    obstacle: str | None
    #: Whether it goes back into the queue unless a user says otherwise.
    goes_on: bool
    #: Words that are added to it, as bash reads them.
    more: tuple[str, ...] = ()


def _script(asked: Asked, context: typer.Context) -> tuple[str, str]:
    """The job's script and name."""
    work = _work(asked, context)
    ntasks = _ntasks(asked, work)
    by_srun, why = _launcher(asked, work)
    requeue = work.goes_on if asked.requeue is None else asked.requeue
    name = asked.name_of(work.name)
    options = [option("job-name", name), option("ntasks", ntasks), *asked.resources]
    options += ["--output=%x-%j.out", "--open-mode=append"]
    if asked.time is not None and asked.seconds_before >= asked.time:
        raise UsageError(
            f"--time {asked.time} s: the job is told {asked.seconds_before} s before its end, "
            "which would be at once: give it more time, or less with --grace"
        )
    options.append("--requeue" if requeue else "--no-requeue")
    if requeue or asked.grace is not None:
        options.append(f"--signal={'' if by_srun else 'B:'}USR1@{asked.seconds_before}")
    program = ["phalanx"] if asked.environment.venv else [sys.executable, "-m", "phalanx"]
    command = [*quoted([*program, work.name, *work.arguments]), *work.more]
    if by_srun:
        cores = [] if asked.cpus_per_task is None else [f"--cpus-per-task={asked.cpus_per_task}"]
        command = ["srun", "--mpi=pmix", *cores, *command]
    elif work.name == "train" and work.ranks is None and ntasks > 1:
        command += [f"--ranks={ntasks}"]
    return batch_script(options, asked.environment, command, why=why), name


def _work(asked: Asked, context: typer.Context) -> _Work:
    """The command to run, parsed and checked as it will be in the job."""
    name, *arguments = asked.command
    if name not in _KINDS:
        raise UsageError(f"phalanx submit takes train, sweep or run, not '{name}'")
    assert context.parent is not None
    commands = context.parent.command.commands  # type: ignore[attr-defined]
    inner = commands[name].make_context(name, list(arguments), parent=context.parent)
    return _KINDS[name](asked, arguments, inner)


def _of_train(asked: Asked, arguments: list[str], inner: typer.Context) -> _Work:
    given: dict[str, Any] = inner.params
    flags = {name: value for name, value in given.items() if name in SETTINGS}
    settings = settings_of(flags, given["config"], context=inner, entry=given["entry"])
    ranks, resume = settings.ranks, given["resume"]
    if resume is None:
        count = ranks or asked.ntasks or 1
        check_settings(settings, count, needs_data=False)  # which may be on the nodes alone
    elif ranks is None and resume.exists():
        ranks = read_run_settings(resume).ranks if asked.ntasks is None else None
    more: list[str] = []
    if asked.requeue is not False:
        check_checkpoints(settings, otherwise=_NOT)
        more += [] if given["requeue"] else ["--requeue"]
        if settings.output is None and resume is None:
            more.append(f'--output="runs/{asked.name_of("train")}-$SLURM_JOB_ID"')
    obstacle = None
    if settings.on_failure in ("shrink", "restart"):
        how = f"--on-failure {settings.on_failure}"
        obstacle = f"phalanx starts the ranks: srun ends them all when one is lost, for all {how}"
    return _Work("train", arguments, ranks, obstacle, goes_on=True, more=tuple(more))


def _of_sweep(asked: Asked, arguments: list[str], inner: typer.Context) -> _Work:
    sweep = read_sweep(inner.params, context=inner)
    ranks = max(one.ranks for one in sweep.combinations if one.refusal is None)
    more: list[str] = []
    if asked.requeue is not False:
        for one in sweep.combinations:
            check_checkpoints(one.settings, otherwise=_NOT)
        more += [] if sweep.requeue else ["--requeue"]
    if inner.params["output"] is None and inner.params["resume"] is None:
        more += quoted([f"--output={sweep.folder}"])
    obstacle = "phalanx sweep starts the ranks of each training itself"
    return _Work("sweep", arguments, ranks, obstacle, goes_on=True, more=tuple(more))


def _of_run(asked: Asked, arguments: list[str], inner: typer.Context) -> _Work:
    obstacle = "phalanx run starts the ranks itself"
    return _Work("run", arguments, inner.params["ranks"], obstacle, goes_on=False)


_KINDS: dict[str, Callable[[Asked, list[str], Any], _Work]] = {
    "train": _of_train,
    "sweep": _of_sweep,
    "run": _of_run,
}


def _ntasks(asked: Asked, work: _Work) -> int:
    """The job's tasks: those asked for, if they agree with the command's ranks."""
    ranks = work.ranks
    if asked.ntasks is None or ranks is None:
        return asked.ntasks or ranks or 1
    if ranks > asked.ntasks or (work.name == "train" and ranks != asked.ntasks):
        raise UsageError(
            f"--ntasks {asked.ntasks} for a command with {counted(ranks, 'rank')}: leave "
            "--ntasks out, or give it the same number"
        )
    return asked.ntasks


def _launcher(asked: Asked, work: _Work) -> tuple[bool, str]:
    """Whether `srun` starts the ranks, and why, for people."""
    if work.obstacle is not None:
        if asked.launch == "srun":
            raise UsageError(f"--launch srun: {work.obstacle}: leave it out")
        return False, work.obstacle
    if asked.launch == "phalanx":
        return False, "phalanx starts the ranks, as asked for"
    pmix = control.has_pmix()
    if asked.launch == "srun":
        if pmix is False:
            raise UsageError(
                "--launch srun: `srun --mpi=list` has no pmix here: take --launch phalanx"
            )
        return True, "srun starts the ranks by PMIx, as asked for"
    if pmix:
        return True, "srun starts the ranks by PMIx, which `srun --mpi=list` has"
    if pmix is None:
        return False, "phalanx starts the ranks, since there was no srun to ask for PMIx"
    return False, "phalanx starts the ranks, since `srun --mpi=list` has no PMIx"
