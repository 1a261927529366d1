"""The flags of `phalanx advise`: those of `phalanx train`, and its own."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from phalanx.cli.flags.options import parameter, with_parameters
from phalanx.cli.flags.settings import setting_parameters, with_settings
from phalanx.errors import UsageError
from phalanx.observe.advise.link import Link, parse_link
from phalanx.settings.table import Settings

#: Of the settings, what has nothing to do with how long a step takes, or would disturb it.
_LEFT_OUT = (
    *("profile", "trace", "output", "checkpoint_every", "keep", "evaluate_first"),
    *("on_failure", "restarts", "replace", "stall_after", "quiet"),
)
_SECONDS = 15.0
#: What a plot can be written as.
PLOTS = (".png", ".svg", ".pdf")


def _option(kind: Any, metavar: str, about: str) -> Any:
    option = typer.Option(metavar=metavar, help=about, rich_help_panel="Advice", show_default=False)
    return Annotated[kind | None, option]


_OWN: dict[str, Any] = {
    "network": _option(
        str,
        "BANDWIDTH,LATENCY",
        "What is between hosts, such as 10gbit,50us: for a cluster that this is not "
        "[default: as measured on several hosts; on one, 10gbit,50us is assumed]",
    ),
    "ranks_per_host": _option(
        int, "N", "Ranks that each host is to have [default: as many as are measured on one]"
    ),
    "seconds": _option(
        float, "X", "Measure steps for about so long; longer is surer [default: 15]"
    ),
    "json": _option(Path, "FILE", "Write all of it as JSON: measurements, model and advice."),
    "plot": _option(
        Path, "FILE.png|svg|pdf", "Draw efficiency over ranks and over the size of the network."
    ),
}


@dataclass(frozen=True)
class Asked:
    """What is asked for."""

    settings: Settings
    network: Link | None
    ranks_per_host: int | None
    seconds: float
    json: Path | None
    plot: Path | None


def with_advice(command: Callable[[Asked], None]) -> Callable[..., None]:
    """A command whose flags are those of a training and of advice on it."""

    def run(**given: Any) -> None:
        own = {name: given.pop(name) for name in _OWN}
        found: list[Settings] = []
        with_settings(found.append)(**given)
        own["network"] = None if own["network"] is None else parse_link(own["network"])
        own["seconds"] = _SECONDS if own["seconds"] is None else own["seconds"]
        asked = Asked(settings=found[0], **own)
        if not 0 < asked.seconds < math.inf:
            raise UsageError(f"--seconds must be above 0, not {asked.seconds:g}")
        if asked.ranks_per_host is not None and asked.ranks_per_host < 1:
            raise UsageError(f"--ranks-per-host must be at least 1, not {asked.ranks_per_host}")
        if asked.plot is not None and asked.plot.suffix not in PLOTS:
            raise UsageError(f"--plot {asked.plot}: takes a file that ends in {', '.join(PLOTS)}")
        command(asked)

    ours = [parameter(name, annotation) for name, annotation in _OWN.items()]
    of_training = setting_parameters()
    parameters = [one for name, one in of_training.items() if name not in _LEFT_OUT]
    return with_parameters(run, [*parameters, *ours], like=command)
