"""The flags of `phalanx sweep`: those of `phalanx train`, what varies, and how long it may take."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from phalanx.cli.flags.options import parameter, with_parameters
from phalanx.cli.flags.own import declared, own_flags
from phalanx.cli.flags.settings import entry_point_parameter, setting_parameters, settings_of
from phalanx.errors import UsageError
from phalanx.observe.sweep import folder as folders
from phalanx.observe.sweep.axes import Axis, parse_axis
from phalanx.observe.sweep.combinations import Combination, check_refusals, combine, planned
from phalanx.settings.files import keys_in
from phalanx.settings.intervals import parse_duration
from phalanx.settings.resuming import PARTS
from phalanx.settings.table import SETTINGS, Settings
from phalanx.wording import flag

#: Of the settings, what a sweep has one of, or decides by itself.
_LEFT_OUT = ("output", "trace")
#: What is not shown of its trainings anyway.
_IDLE = ("quiet",)
_PANEL = "Sweep"


def _option(kind: Any, spelled: str, metavar: str | None, about: str) -> Any:
    option = typer.Option(
        spelled, metavar=metavar, help=about, rich_help_panel=_PANEL, show_default=False
    )
    return Annotated[kind, option]


_OWN: dict[str, Any] = {
    "vary": _option(
        list[str] | None,
        "--vary",
        "NAME=A,B",
        "A setting and its values, as often as needed: all combinations. What has commas of its "
        "own stands in brackets: 'hidden=30,[300,300]'.",
    ),
    "output": _option(
        Path | None,
        "--output",
        "FOLDER",
        "Where everything goes; what was begun there goes on [default: runs/sweep-…]",
    ),
    "resume": _option(Path | None, "--resume", "FOLDER", "Go on with the sweep in this folder."),
    "time_limit": _option(str | None, "--time-limit", "2h", "Stop in order after so long."),
    "skip_refused": _option(bool, "--skip-refused", None, "Leave out what cannot be trained."),
    "report": _option(Path | None, "--report", "FILE", "The report [default: in the folder]"),
    "requeue": _option(bool, "--requeue", None, "As `phalanx train --requeue`, in a Slurm job."),
    "trust_code": _option(bool, "--trust-code", None, "With --resume: run the code it names."),
}
#: What may be said of a sweep that is gone on with.
_OF_EVERY_TURN = ("resume", "time_limit", "report", "requeue", "trust_code")


@dataclass(frozen=True)
class Asked:
    """What a sweep is asked for; everything is checked."""

    folder: Path
    combinations: list[Combination]
    skip_refused: bool
    #: Seconds.
    time_limit: float | None
    report: Path
    requeue: bool


def with_sweep(command: Callable[[Asked], None]) -> Callable[..., None]:
    """A command whose flags are those of a sweep."""

    def run(context: typer.Context, config: Path | None = None, **given: Any) -> None:
        command(read_sweep(given | {"config": config}, context=context))

    switches = ("skip_refused", "requeue", "trust_code")
    parameters = [
        parameter(name, kind, default=False if name in switches else None)
        for name, kind in _OWN.items()
    ]
    of_training = setting_parameters()
    parameters += [
        one for name, one in of_training.items() if name not in (*_LEFT_OUT, *_IDLE, *_OWN)
    ]
    parameters.append(entry_point_parameter())
    return with_parameters(run, parameters, like=command)


def read_sweep(given: Mapping[str, Any], *, context: typer.Context) -> Asked:
    """What flags ask for, by their names in Python."""
    own = {name: given[name] for name in _OWN}
    flags = {name: value for name, value in given.items() if name not in _OWN}
    limit = own["time_limit"]
    seconds = None if limit is None else parse_duration(limit, "--time-limit")
    if own["resume"] is not None:
        _refuse_flags({**own, **flags}, context)
        folder, combinations, skip = _gone_on_with(own["resume"], trust=own["trust_code"])
    else:
        if own["trust_code"]:
            raise UsageError("--trust-code is about the folder of a sweep: say --resume, too")
        folder, combinations = _begun(own, flags, context)
        skip = own["skip_refused"]
    return Asked(
        folder=folder,
        combinations=combinations,
        skip_refused=skip,
        time_limit=seconds,
        report=own["report"] or folder / folders.REPORT,
        requeue=own["requeue"],
    )


def _refuse_flags(given: Mapping[str, Any], context: typer.Context) -> None:
    said = [name for name, value in given.items() if value not in (None, False)]
    others = [flag(name) for name in (*said, *own_flags(context)) if name not in _OF_EVERY_TURN]
    if others:
        raise UsageError(
            f"--resume goes on with a sweep as it was asked: leave out {', '.join(others)}, or "
            "say --output instead, with all flags that it was begun with"
        )


def _gone_on_with(folder: Path, *, trust: bool) -> tuple[Path, list[Combination], bool]:
    combinations, skip = folders.read_asked(folder), folders.skips_refused(folder)
    for one in combinations:
        names = {part: getattr(one.settings, part) for part in PARTS}
        code = [name for name in names.values() if name is not None and ":" in name]
        if code and not trust:
            raise UsageError(
                f"{folder / 'sweep.json'} names code, {code[0]}, which can do whatever you can: if "
                "you know that code, say --trust-code"
            )
    combinations = [
        one if one.refusal is not None else planned(one.number, one.values, one.settings)
        for one in combinations
    ]
    check_refusals(combinations, skip=skip)
    return folder, combinations, skip


def _begun(
    own: Mapping[str, Any], flags: dict[str, Any], context: typer.Context
) -> tuple[Path, list[Combination]]:
    if not own["vary"]:
        raise UsageError(
            "nothing varies: say --vary NAME=VALUE,VALUE, such as --vary ranks=1,2, or take "
            "`phalanx train`"
        )
    axes = _axes(own["vary"], flags, context)
    config, entry = flags.pop("config"), flags.pop("entry")
    settings = _settings(flags, config, context, entry=entry)
    combinations = combine(axes, settings)
    check_refusals(combinations, skip=own["skip_refused"])
    folder: Path | None = own["output"]
    if folder is None:
        first = next(one.settings for one in combinations if one.refusal is None)
        names = (Path(name.partition(":")[0]).stem for name in (first.dataset, first.model))
        folder = folders.free_folder(f"sweep-{'-'.join(names)}", combinations)
    folders.check_folder(folder, combinations)
    return folder, combinations


def _axes(texts: list[str], flags: Mapping[str, Any], context: typer.Context) -> list[Axis]:
    theirs = declared(context)
    known = {name: option for name, option in SETTINGS.items() if name not in _LEFT_OUT}
    if theirs is not None:
        known |= {name: one.option for name, one in theirs.options.items()}
    axes = [parse_axis(text, known) for text in texts]
    said = [name for name, value in flags.items() if value is not None]
    for axis in axes:
        if axis.name in (*said, *own_flags(context)):
            raise UsageError(f"{flag(axis.name)} is given, and --vary varies it: leave one out")
    return axes


def _settings(
    flags: Mapping[str, Any], config: Path | None, context: typer.Context, *, entry: str | None
) -> Callable[[Mapping[str, Any]], Settings]:
    """What makes settings of the values of one combination."""
    common = settings_of(
        flags, config, context=context, entry=entry
    )  # wrong in any case: said once
    for name in _LEFT_OUT:
        if getattr(common, name) is not None:
            raise UsageError(
                f"--config {config}: {name} is of one training, and a sweep has several: leave it "
                "out there"
            )
    in_file = {} if config is None else keys_in(config)
    # The report shows where the time went, unless somebody says otherwise.
    profile = {} if flags["profile"] is not None or "profile" in in_file else {"profile": True}

    def settings_with(values: Mapping[str, Any]) -> Settings:
        more = profile | dict(values)
        return settings_of(flags, config, context=context, more=more, entry=entry)

    return settings_with
