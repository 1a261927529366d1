"""The flags of `phalanx evaluate`: a run, or those of `phalanx train` that say what a model is."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from phalanx.cli.flags.data import without_split
from phalanx.cli.flags.options import parameter, with_parameters
from phalanx.cli.flags.own import own_flags
from phalanx.cli.flags.runs import Threads, settings_on_ranks, start_ranks, weights_to_use
from phalanx.cli.flags.settings import setting_parameters, with_settings
from phalanx.cli.flags.trust import TrustCode
from phalanx.errors import UsageError
from phalanx.runs.folder import check_writable
from phalanx.settings.panels import names_in
from phalanx.settings.table import SETTINGS, Settings
from phalanx.wording import flag

_Run = Annotated[
    Path | None,
    typer.Argument(metavar="RUN", help="The folder of a finished training.", show_default=False),
]
_Output = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the metrics as JSON, with the whole confusion matrix.",
        show_default=False,
    ),
]
#: What may be said about a run, which has settings of its own.
_OF_A_RUN = (
    *("data_dir", "test_split", "encoding", "skip_bad", "metrics", "ranks", "threads"),
    *("model", "dataset", "objective", "device", "trust_code"),
)
#: The settings that matter besides those of the data and the model.
_MORE = (
    *("context", "config", "loss", "reduction", "objective", "metrics", "dtype", "seed"),
    *("ranks", "threads", "device"),
)


#: Of the data's and the model's, those that only a training needs.
_LEFT_OUT = (
    *("validation_split", "test_as_validation", "flip", "flip_probability", "crop", "init"),
    *("crop_window", "crop_probability"),
)


def with_run_or_weights(
    command: Callable[[Settings, Path | None, Path | None], None],
) -> Callable[..., None]:
    """A command that gets settings with weights, a run and a file to write, on one of the ranks."""

    def run(**given: Any) -> None:
        folder: Path | None = given.pop("run")
        output: Path | None = given.pop("output")
        check_writable(output)
        command(_of_weights(given) if folder is None else _of_run(folder, given), folder, output)

    parameters = [parameter("run", _Run), parameter("output", _Output)]
    parameters.append(parameter("trust_code", TrustCode, default=False))
    for name, one in setting_parameters().items():
        if name == "threads":
            parameters.append(parameter(name, Threads, default=1))
        elif name in _names():
            parameters.append(one)
    return with_parameters(run, parameters, like=command)


def _names() -> tuple[str, ...]:
    ours = names_in("Data", "Model")
    return (*(name for name in ours if name not in _LEFT_OUT), *_MORE)


def _of_run(folder: Path, given: dict[str, Any]) -> Settings:
    kept = (*_OF_A_RUN, "context")
    said = [name for name, value in given.items() if value is not None and name not in kept]
    if said := [*said, *own_flags(given["context"])]:
        shown = ", ".join(map(flag, said))
        raise UsageError(f"a run has settings of its own: leave out {shown}, or the run")
    for name in ("test_split", "metrics", "ranks", "device"):
        if given[name] is not None:
            given[name] = SETTINGS[name].convert(given[name], where=flag(name))
    said_of_run = {name: given[name] for name in _OF_A_RUN}
    settings = settings_on_ranks(folder, **said_of_run, needs_objective=True)
    return settings.changed(weights=weights_to_use(folder))


def _of_weights(given: dict[str, Any]) -> Settings:
    if given.pop("trust_code"):
        raise UsageError("--trust-code is about the folder of a run: name one, or leave it out")
    found: list[Settings] = []
    with_settings(found.append, chooses_strategy=False)(**given)
    settings = found[0]
    if settings.weights is None:
        raise UsageError(
            "evaluate what? Name the folder of a run, or --weights FILE with the --model and the "
            "--dataset that it is for"
        )
    if settings.test_split is None:
        settings = without_split(settings)
    # How a config file has its model trained does not bind how it is used.
    return start_ranks(
        settings, ranks=settings.ranks, threads=given["threads"], device=settings.device
    )
