"""The flags of `phalanx compare`: those of `phalanx train`, with its own in their place."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from phalanx import data
from phalanx.cli.flags.options import parameter, with_parameters
from phalanx.cli.flags.own import own_flags
from phalanx.cli.flags.settings import setting_parameters, with_settings
from phalanx.errors import UsageError
from phalanx.observe.plan import CPU
from phalanx.settings.files import keys_in
from phalanx.settings.table import Settings
from phalanx.settings.tokens import has_tokens
from phalanx.strategies.registry import STRATEGIES, resolve
from phalanx.wording import flag

_ALL = "all"
#: Of the settings, what a comparison decides by itself.
_LEFT_OUT = (
    *("strategy", "profile", "device", "checkpoint_every", "keep"),
    *("on_failure", "restarts", "replace", "stall_after", "tensorboard", "mlflow", "quiet"),
)


def _option(kind: Any, metavar: str, about: str, panel: str = "Comparison") -> Any:
    option = typer.Option(metavar=metavar, help=about, rich_help_panel=panel, show_default=False)
    return Annotated[kind | None, option]


_OWN: dict[str, Any] = {
    "runs": Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Folders of finished runs, to compare as they are.",
            show_default=False,
        ),
    ],
    "strategies": _option(
        str, "A,B,C|all", "What to train with; `phalanx strategies` explains [default: all]"
    ),
    "ranks": _option(
        int, "N", "Ranks to start; single has one [default: one a core, and 2 at least]"
    ),
    "repeats": _option(int, "N", "Train so often, and take the best time [default: 1]"),
    "devices": _option(str, "A,B", "What to train on [default: cpu]"),
    "model": _option(
        str,
        "TEXT",
        "A name from `phalanx models`, or FILE.py:FUNCTION, or MODULE:FUNCTION "
        "[default: simplecnn for images, mlp for other data]",
        "Model",
    ),
    "output": _option(
        Path, "PATH", "A new or empty folder to keep the runs in [default: not kept]", "Output"
    ),
    "json": _option(Path, "FILE", "Write the table as JSON.", "Output"),
    "csv": _option(Path, "FILE", "Write the table as CSV.", "Output"),
    "report": _option(
        Path, "FILE.html", "Write a page about the runs, as `phalanx report` does.", "Output"
    ),
}


@dataclass(frozen=True)
class Asked:
    """What a comparison is asked for."""

    #: Finished runs; if there are any, nothing is trained.
    runs: tuple[Path, ...]
    settings: Settings
    strategies: tuple[str, ...]
    devices: tuple[str, ...]
    repeats: int
    json: Path | None
    csv: Path | None
    report: Path | None


def with_comparison(command: Callable[[Asked], None]) -> Callable[..., None]:
    """A command whose flags are those of a comparison."""

    def run(**given: Any) -> None:
        runs = tuple(given.pop("runs") or ())
        names = ("json", "csv", "report")
        files: dict[str, Path | None] = {name: given.pop(name) for name in names}
        if runs:
            _refuse_flags(given)
        asked = Asked(
            runs=runs,
            strategies=_strategies(given.pop("strategies")),
            devices=_names(given.pop("devices") or "") or (CPU,),
            repeats=_repeats(given.pop("repeats")),
            settings=_settings(given),
            **files,
        )
        command(asked)

    parameters = [parameter(name, annotation) for name, annotation in _OWN.items()]
    of_training = setting_parameters()
    parameters += [one for name, one in of_training.items() if name not in (*_LEFT_OUT, *_OWN)]
    return with_parameters(run, parameters, like=command)


def _refuse_flags(given: dict[str, Any]) -> None:
    said = [name for name, value in given.items() if value is not None and name != "context"]
    flags = [flag(name) for name in (*said, *own_flags(given["context"]))]
    if flags:
        raise UsageError(
            f"finished runs are compared as they are: leave out {', '.join(flags)}, or the runs"
        )


def _names(text: str) -> tuple[str, ...]:
    """The names in a list with commas, each once; `all` stands for those of all strategies."""
    names = (name.strip() for name in text.split(","))
    return tuple(dict.fromkeys(name for name in names if name and name != _ALL))


def _strategies(text: str | None) -> tuple[str, ...]:
    """Those to compare, by our names for them."""
    return tuple(dict.fromkeys(map(resolve, _names(text or _ALL)))) or tuple(STRATEGIES)


def _repeats(asked: int | None) -> int:
    if asked is not None and asked < 1:
        raise UsageError(f"--repeats must be at least 1, not {asked}")
    return 1 if asked is None else asked


def _settings(given: dict[str, Any]) -> Settings:
    """The settings that flags and a config file give, as `phalanx train` reads them."""
    found: list[Settings] = []
    with_settings(found.append, chooses_strategy=False)(**given)
    settings = found[0]
    in_file = {} if given["config"] is None else keys_in(given["config"])
    if given["model"] is not None or "model" in in_file or has_tokens(settings):
        return settings
    shapes = {entry.name: entry.input_shape for entry in data.describe()}
    image = len(shapes.get(settings.dataset, ())) == 3
    # Options such as --hidden are those of an mlp.
    model = "simplecnn" if image and not settings.model_options else "mlp"
    with_settings(found.append, chooses_strategy=False)(**given | {"model": model})
    return found[1]
