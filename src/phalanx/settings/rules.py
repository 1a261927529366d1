"""What cannot work is refused here, before any rank starts and without importing torch."""

import dataclasses
import os
from pathlib import Path

from phalanx import data, models
from phalanx.comm import algorithms
from phalanx.data.tables.form import TableForm
from phalanx.errors import UsageError
from phalanx.settings.metrics import check_metrics
from phalanx.settings.optimizers import OPTIMIZERS
from phalanx.settings.table import Settings
from phalanx.strategies import registry as strategies
from phalanx.wording import unknown

#: Options that say how gradients are added up, which fixed shards do in one way alone.
_EXCHANGE_OPTIONS = ("algorithm", "overlap", "compress")


def check_settings(
    settings: Settings, ranks: int, *, form: TableForm | None = None, needs_data: bool = True
) -> None:
    """Raise UsageError or DataError for whatever cannot work, before anything is started.

    To use a trained model, its data may not be needed, or a table has to be of its `form`.
    """
    _check_choices(settings)
    _check_ranges(settings, ranks)
    _check_combinations(settings)
    if needs_data:
        data.check(settings.dataset, settings.data_dir, options=settings.data_options, form=form)
    models.check(settings.model, settings.model_options)
    _check_weights(settings)
    options = settings.strategy_options
    strategy = settings.strategy or strategies.default_strategy(ranks, options)
    strategies.check(strategy, ranks, options=options)
    _check_shards(settings, strategy, ranks)
    _check_device(settings, strategy, ranks)
    _check_paths(settings)


def _check_paths(settings: Settings) -> None:
    trace, output = settings.trace, settings.output
    if trace is not None:
        if trace.is_dir():
            raise UsageError(f"--trace {trace} is a folder, not a file to write")
        _check_can_be_made(trace.parent, f"--trace {trace}")
    if output is None:
        return
    if not output.exists():
        _check_can_be_made(output, f"--output {output}")
    elif not output.is_dir():
        raise UsageError(f"--output {output} is a file, not a folder")
    # A run that got no further than its settings has nothing to lose.
    elif any(path.name != "config.json" for path in output.iterdir()):
        raise UsageError(f"--output {output} is not empty: name a new folder, or remove it first")


def _check_can_be_made(folder: Path, what: str) -> None:
    """Refuse a folder that is there only in parts, if the last of them cannot be written to."""
    whole = folder.absolute()
    there = next(path for path in (whole, *whole.parents) if path.exists())
    if not there.is_dir():
        raise UsageError(f"{what}: {there} is a file, not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"{what}: {there} is not yours to write to")


def _check_choices(settings: Settings) -> None:
    for field in dataclasses.fields(settings):
        choices, value = field.metadata["choices"], getattr(settings, field.name)
        if choices and value is not None and value not in choices:
            raise unknown(field.name.replace("_", " "), value, known=choices)


def _check_ranges(settings: Settings, ranks: int) -> None:
    at_least_one: dict[str, int | str | None] = {"ranks": ranks}
    for name in (
        *("batch_size", "batch_size_per_rank", "threads", "shards", "accumulate"),
        *("every", "micro_batches", "replicas", "steps_per_epoch", "schedule_epochs", "patience"),
    ):
        at_least_one[name] = getattr(settings, name)
    for name, value in at_least_one.items():
        if isinstance(value, int) and value < 1:
            raise UsageError(f"{_flag(name)} must be at least 1, not {value}")
    if settings.epochs < 0:
        raise UsageError(f"--epochs must be 0 or more, not {settings.epochs}")
    if not 0 <= settings.seed < 2**63:
        raise UsageError(f"--seed must be from 0 to below 2^63, not {settings.seed}")
    if not 0 <= settings.validation_split < 1:
        raise UsageError(
            f"--validation-split must be from 0 to below 1, not {settings.validation_split}"
        )
    if settings.clip_norm is not None and not 0 < settings.clip_norm < float("inf"):
        raise UsageError(f"--clip-norm must be above 0, not {settings.clip_norm}")
    for name in ("learning_rate", "momentum", "max_staleness", "outer_momentum", "warm_up"):
        value = getattr(settings, name)
        if value is not None and not 0 <= value < float("inf"):
            raise UsageError(f"{_flag(name)} must be 0 or more, not {value}")


def _check_combinations(settings: Settings) -> None:
    if settings.test_as_validation and settings.validation_split:
        raise UsageError("--test-as-validation holds no samples out: drop --validation-split")
    if settings.batch_size is not None and settings.batch_size_per_rank is not None:
        raise UsageError("--batch-size and --batch-size-per-rank say the same thing: give one")
    _check_optimizer(settings)
    check_metrics(settings.metrics)
    goal = settings.goal
    if goal is not None and goal[0] not in ("loss", "accuracy", *settings.metrics):
        raise UsageError(f"--stop-at {settings.stop_at} needs --metrics {goal[0]}, too")
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
    exchange = [name for name in settings.strategy_options if name in _EXCHANGE_OPTIONS]
    if settings.shards is not None and exchange:
        flags = ", ".join(map(_flag, exchange))
        raise UsageError(
            f"--shards adds up in an order of its own, which leaves nothing to {flags}: "
            "give one or the other"
        )


def _check_weights(settings: Settings) -> None:
    weights = settings.weights
    if weights is not None and not weights.is_file():
        raise UsageError(f"--weights {weights}: no such file")
    if settings.output_activation == "sigmoid" and settings.loss == "binary-cross-entropy":
        raise UsageError(
            "--loss binary-cross-entropy has a sigmoid of its own: leave out --output-activation"
        )


def _check_shards(settings: Settings, strategy: str, ranks: int) -> None:
    shards, options = settings.shards, settings.strategy_options
    if shards is None or strategy not in strategies.STRATEGIES:
        return
    in_step = options.get("max_staleness") == 0  # `async` is `server` then
    if strategy not in strategies.SHARDED and not in_step:
        raise UsageError(
            f"strategy '{strategy}' does not keep fixed shards: leave out --shards, or take one "
            f"of: {', '.join(strategies.SHARDED)}"
        )
    sharing = strategies.workers(strategy, ranks, options)
    if shards < sharing:
        raise UsageError(
            f"--shards {shards} on {sharing} that share a batch would leave some idle: take at "
            f"least {sharing} shards"
        )


def _check_device(settings: Settings, strategy: str, ranks: int) -> None:
    if settings.device == "cuda":
        options = settings.strategy_options
        name = settings.strategy or strategies.default_strategy(ranks, options, central=False)
        if (obstacle := strategies.gpu_obstacle(name, options)) is not None:
            raise UsageError(f"{obstacle}, or take --device cpu")
    if settings.autocast is not None and strategy in strategies.SPLIT_MODELS:
        raise UsageError(
            f"--autocast is not for strategy '{strategy}', under which ranks share a model: leave "
            "it out, or take --dtype bfloat16"
        )
    if settings.autocast is not None and settings.compile:
        raise UsageError("--autocast is not for compiled passes: leave out one of the two")


def _check_optimizer(settings: Settings) -> None:
    having = [name for name, entry in OPTIMIZERS.items() if "momentum" in entry.options]
    if settings.momentum is not None and settings.optimizer not in having:
        raise UsageError(
            f"--momentum is an option of {' and '.join(having)}, not of {settings.optimizer}"
        )
    options = settings.optimizer_choices
    if options.get("nesterov") and not options.get("momentum"):
        raise UsageError("nesterov=true needs a --momentum above 0")
    if settings.outer_momentum is not None and settings.outer_momentum >= 1:
        raise UsageError(f"--outer-momentum must be below 1, not {settings.outer_momentum}")
    for name in ("schedule_epochs", "schedule_factor"):
        if getattr(settings, name) is not None and settings.schedule not in ("step", "plateau"):
            raise UsageError(
                f"{_flag(name)} is for --schedule step and plateau, not for {settings.schedule}"
            )
    factor = settings.schedule_factor
    if factor is not None and not 0 < factor < 1:
        raise UsageError(f"--schedule-factor is between 0 and 1, not {factor}")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
