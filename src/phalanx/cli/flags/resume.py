"""The flags of `phalanx train`: the settings, or a run to go on with and what is to change."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from phalanx.cli.flags.options import parameter, with_parameters
from phalanx.cli.flags.settings import entry_point_parameter, setting_parameters, with_settings
from phalanx.cli.flags.trust import TrustCode
from phalanx.cli.requeue import check_requeue, run_of_last_turn
from phalanx.comm.launch.job import current_job, ranks_agree
from phalanx.errors import UsageError
from phalanx.runs.resuming import Resumed, begin_or_resume
from phalanx.settings.files import keys_in
from phalanx.settings.table import SETTINGS, Settings

_Resume = Annotated[
    Path | None,
    typer.Option(
        metavar="RUN",
        help="Go on with an interrupted training, from its newest checkpoint; flags win over its "
        "settings. If --output names the same folder, it may be new.",
        show_default=False,
    ),
]

_Requeue = Annotated[
    bool,
    typer.Option(
        "--requeue",
        help="In a Slurm job: put it back into the queue when SIGUSR1 or SIGTERM has ended the "
        "training, to go on in the same --output.",
        show_default=False,
    ),
]


def with_settings_or_run(
    command: Callable[[Settings, Resumed | None, bool], None],
) -> Callable[..., None]:
    """A command whose flags are the settings, and that may go on with a run.

    It is told whether a Slurm job is to go on by itself.
    """

    def run(
        resume: Path | None = None, trust_code: bool = False, requeue: bool = False, **given: Any
    ) -> None:
        found: list[Settings] = []
        with_settings(found.append)(**given)
        if trust_code and resume is None:
            raise UsageError("--trust-code is about the folder of a run: say --resume, too")
        if requeue:
            check_requeue(found[0], resume)
            resume = run_of_last_turn(found[0].output) if resume is None else resume
        if resume is not None:
            again = _resumed(resume, found[0], given, trust=trust_code)
            command(again.settings, again, requeue)
        else:
            command(found[0], None, requeue)

    parameters = [
        entry_point_parameter(),
        parameter("resume", _Resume),
        parameter("trust_code", TrustCode, default=False),
        parameter("requeue", _Requeue, default=False),
    ]
    return with_parameters(run, [*setting_parameters().values(), *parameters], like=command)


def _resumed(run: Path, settings: Settings, given: dict[str, Any], *, trust: bool) -> Resumed:
    config = given.get("config")
    names = {name for name in SETTINGS if given.get(name) is not None}
    if config is not None:
        keys = keys_in(config)
        if not keys:
            raise UsageError(f"--config {config}: --resume takes a TOML file, or a config.json")
        names |= {name for name in keys if name in SETTINGS}
    job = current_job()
    if job is not None:
        ranks_agree(job, settings.ranks)
    ranks = None if job is None else job.size
    return begin_or_resume(run, settings, names, ranks=ranks, trust=trust)
