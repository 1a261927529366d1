"""What cannot work is refused here, before any rank starts and without importing torch."""

import dataclasses

from phalanx import data, models
from phalanx.comm import algorithms
from phalanx.errors import UsageError
from phalanx.spelling import unknown
from phalanx.strategies import registry as strategies
from phalanx.train.settings import Settings


def check_settings(settings: Settings, ranks: int) -> None:
    """Raise UsageError or DataError for whatever cannot work, before anything is started."""
    _check_choices(settings)
    _check_ranges(settings, ranks)
    _check_combinations(settings)
    data.check(settings.dataset, settings.data_dir)
    models.check(settings.model, settings.model_options)
    options = settings.strategy_options
    strategy = settings.strategy or strategies.default_strategy(ranks, options)
    strategies.check(strategy, ranks, options=options)
    if settings.output is not None and settings.output.exists():
        if not settings.output.is_dir():
            raise UsageError(f"--output {settings.output} is a file, not a folder")
        if any(settings.output.iterdir()):
            raise UsageError(
                f"--output {settings.output} is not empty: name a new folder, or remove it first"
            )


def _check_choices(settings: Settings) -> None:
    for field in dataclasses.fields(settings):
        choices, value = field.metadata["choices"], getattr(settings, field.name)
        if choices and value is not None and value not in choices:
            raise unknown(field.name.replace("_", " "), value, known=choices)


def _check_ranges(settings: Settings, ranks: int) -> None:
    at_least_one = {"ranks": ranks}
    for name in ("batch_size", "batch_size_per_rank", "threads", "shards", "accumulate"):
        at_least_one[name] = getattr(settings, name)
    for name, value in at_least_one.items():
        if value is not None and value < 1:
            raise UsageError(f"{_flag(name)} must be at least 1, not {value}")
    if settings.epochs < 0:
        raise UsageError(f"--epochs must be 0 or more, not {settings.epochs}")
    if settings.seed < 0:
        raise UsageError(f"--seed must be 0 or more, not {settings.seed}")
    if not 0 <= settings.validation_split < 1:
        raise UsageError(
            f"--validation-split must be from 0 to below 1, not {settings.validation_split}"
        )
    if settings.clip_norm is not None and not 0 < settings.clip_norm < float("inf"):
        raise UsageError(f"--clip-norm must be above 0, not {settings.clip_norm}")
    if settings.shards is not None and settings.shards < ranks:
        raise UsageError(
            f"--shards {settings.shards} on {ranks} ranks would leave some idle: "
            f"take at least {ranks} shards"
        )
    for name in ("learning_rate", "momentum"):
        value = getattr(settings, name)
        if value is not None and not 0 <= value < float("inf"):
            raise UsageError(f"{_flag(name)} must be 0 or more, not {value}")


def _check_combinations(settings: Settings) -> None:
    if settings.batch_size is not None and settings.batch_size_per_rank is not None:
        raise UsageError("--batch-size and --batch-size-per-rank say the same thing: give one")
    if settings.momentum is not None and settings.optimizer != "sgd":
        raise UsageError(f"--momentum is an option of sgd, not of {settings.optimizer}")
    if settings.algorithm is not None:
        algorithms.check(settings.algorithm, started=settings.overlap)
        if settings.compress is not None and settings.algorithm != algorithms.AUTO:
            raise UsageError(
                f"--algorithm {settings.algorithm} is for MPI's own sums, and gradients under "
                "--compress are not added up by MPI: give one of the two"
            )
    if settings.compile and (settings.shards is not None or settings.overlap):
        other = "--shards" if settings.shards is not None else "--overlap"
        raise UsageError(f"--compile does not go together with {other}: leave out one of the two")
    if settings.shards is not None and settings.strategy_options:
        flags = ", ".join(map(_flag, settings.strategy_options))
        raise UsageError(
            f"--shards adds up in an order of its own, which leaves nothing to {flags}: "
            "give one or the other"
        )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
