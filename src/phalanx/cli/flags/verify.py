"""The flags of `phalanx verify`: those of `phalanx train`, and its own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from phalanx.cli.flags.options import parameter, with_parameters
from phalanx.cli.flags.settings import setting_parameters, with_settings
from phalanx.errors import UsageError
from phalanx.settings.table import Settings

#: Of the settings, what a verification decides by itself.
_LEFT_OUT = (
    *("output", "trace", "profile", "checkpoint_every", "keep", "evaluate_first", "epochs"),
    *("on_failure", "restarts", "replace", "stall_after", "tensorboard", "mlflow", "ranks"),
    *("keep_best", "patience", "goal", "quiet"),
)
_STEPS, _RANKS = 6, 3


def _option(kind: Any, metavar: str, about: str) -> Any:
    option = typer.Option(
        metavar=metavar, help=about, rich_help_panel="Verification", show_default=False
    )
    return Annotated[kind | None, option]


_OWN: dict[str, Any] = {
    "ranks": _option(int, "N", "The most ranks to try; 1 and 2 are tried as well [default: 3]"),
    "steps": _option(int, "N", "Steps of each training; interrupted half way [default: 6]"),
    "json": _option(Path, "FILE", "Write what was found as JSON."),
}


@dataclass(frozen=True)
class Asked:
    """What is asked for."""

    settings: Settings
    ranks: int
    steps: int
    json: Path | None


def with_verification(command: Callable[[Asked], None]) -> Callable[..., None]:
    """A command whose flags are those of a training and of its verification."""

    def run(**given: Any) -> None:
        own = {name: given.pop(name) for name in _OWN}
        found: list[Settings] = []
        steps = _STEPS if own["steps"] is None else own["steps"]
        ranks = _RANKS if own["ranks"] is None else own["ranks"]
        if steps < 2:
            raise UsageError(f"--steps must be at least 2, one on each side of an end, not {steps}")
        if ranks < 2:
            raise UsageError(f"--ranks must be at least 2, to compare with 1, not {ranks}")
        with_settings(found.append)(**given, ranks=str(ranks))
        command(Asked(found[0], ranks=ranks, steps=steps, json=own["json"]))

    ours = [parameter(name, annotation) for name, annotation in _OWN.items()]
    of_training = setting_parameters()
    parameters = [one for name, one in of_training.items() if name not in _LEFT_OUT]
    return with_parameters(run, [*parameters, *ours], like=command)
