"""The flags of `phalanx evaluate`: a run, or those of `phalanx train` that say what a model is."""

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from phalanx.cli.flags.data import without_split
from phalanx.cli.flags.runs import Threads, settings_on_ranks, start_ranks
from phalanx.cli.flags.settings import with_settings
from phalanx.errors import UsageError
from phalanx.runs.folder import check_writable
from phalanx.settings.files import convert
from phalanx.settings.table import Settings

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
_OF_A_RUN = ("data_dir", "test_split", "metrics", "ranks", "threads")
#: The settings that matter besides those of the data and the model.
_MORE = ("config", "loss", "reduction", "metrics", "dtype", "seed", "ranks", "threads")


#: Of the data's and the model's, those that only a training needs.
_LEFT_OUT = ("validation_split", "test_as_validation", "flip", "crop", "init")


def with_run_or_weights(
    command: Callable[[Settings, Path | None, Path | None], None],
) -> Callable[..., None]:
    """A command that gets settings with weights, a run and a file to write, on one of the ranks."""

    def run(**given: Any) -> None:
        folder: Path | None = given.pop("run")
        output: Path | None = given.pop("output")
        check_writable(output)
        command(_of_weights(given) if folder is None else _of_run(folder, given), folder, output)

    parameters = [_parameter("run", _Run), _parameter("output", _Output)]
    shown = inspect.signature(with_settings(lambda settings: None)).parameters
    for name, one in shown.items():
        if name == "threads":
            parameters.append(_parameter(name, Threads, default=1))
        elif name in _names():
            parameters.append(one)
    run.__name__ = command.__name__
    run.__doc__ = command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _names() -> tuple[str, ...]:
    fields = dataclasses.fields(Settings)
    groups = [one.name for one in fields if one.metadata["group"] in ("Data", "Model")]
    return (*(name for name in groups if name not in _LEFT_OUT), *_MORE)


def _parameter(name: str, annotation: Any, *, default: Any = None) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _of_run(folder: Path, given: dict[str, Any]) -> Settings:
    flags = [name for name, value in given.items() if value is not None and name not in _OF_A_RUN]
    if flags:
        shown = ", ".join("--" + name.replace("_", "-") for name in flags)
        raise UsageError(f"a run has settings of its own: leave out {shown}, or the run")
    types = get_type_hints(Settings)
    for name, flag in (("test_split", "--test-split"), ("metrics", "--metrics")):
        if given[name] is not None:
            given[name] = convert(given[name], types[name], where=flag)
    settings = settings_on_ranks(folder, **{name: given[name] for name in _OF_A_RUN})
    return dataclasses.replace(settings, weights=folder / "model.safetensors")


def _of_weights(given: dict[str, Any]) -> Settings:
    found: list[Settings] = []
    with_settings(found.append)(**given)
    settings = found[0]
    if settings.weights is None:
        raise UsageError(
            "evaluate what? Name the folder of a run, or --weights FILE with the --model and the "
            "--dataset that it is for"
        )
    if settings.test_split is None:
        settings = without_split(settings)
    # How a config file has its model trained does not bind how it is used.
    return start_ranks(settings, ranks=settings.ranks, threads=given["threads"])
