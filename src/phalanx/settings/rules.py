"""What cannot work is refused here, before any rank starts and without importing torch."""

import os
from pathlib import Path

from phalanx import data, models
from phalanx.data.tables.form import TableForm
from phalanx.errors import UsageError
from phalanx.options import check_values
from phalanx.settings.metrics import check_metrics
from phalanx.settings.optimizers import OPTIMIZERS
from phalanx.settings.table import SETTINGS, Settings
from phalanx.strategies import registry as strategies
from phalanx.strategies.rules import Choices, check_choices, check_idle, check_strategy
from phalanx.wording import flag


def check_settings(
    settings: Settings, ranks: int, *, form: TableForm | None = None, needs_data: bool = True
) -> None:
    """Raise UsageError or DataError for whatever cannot work, before anything is started.

    To use a trained model, its data may not be needed, or a table has to be of its `form`.
    """
    SETTINGS["ranks"].check(ranks, spell=flag)
    check_values(SETTINGS.values(), vars(settings), spell=flag)
    _check_combinations(settings)
    if needs_data:
        data.check(settings.dataset, settings.data_dir, options=settings.data_options, form=form)
    models.check(settings.model, settings.model_options, spell=flag)
    _check_weights(settings)
    _check_strategy(settings, ranks)
    _check_paths(settings)


def _check_strategy(settings: Settings, ranks: int) -> None:
    options = settings.strategy_options
    chosen = Choices(
        ranks=ranks,
        options=options,
        shards=settings.shards,
        clip_norm=settings.clip_norm,
        accumulate=settings.accumulate,
        compile=settings.compile,
        autocast=settings.autocast is not None,
        spell=flag,
    )
    check_choices(chosen)
    strategy = settings.strategy or strategies.default_strategy(ranks, options)
    strategies.check(strategy, ranks, options=options, spell=flag)
    check_strategy(strategy, chosen)
    check_idle(strategy, chosen)
    if settings.device == "cuda":
        name = settings.strategy or strategies.default_strategy(ranks, options, central=False)
        if (obstacle := strategies.gpu_obstacle(name, options, spell=flag)) is not None:
            raise UsageError(f"{obstacle}, or take --device cpu")


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


def _check_weights(settings: Settings) -> None:
    weights = settings.weights
    if weights is not None and not weights.is_file():
        raise UsageError(f"--weights {weights}: no such file")
    if settings.output_activation == "sigmoid" and settings.loss == "binary-cross-entropy":
        raise UsageError(
            "--loss binary-cross-entropy has a sigmoid of its own: leave out --output-activation"
        )


def _check_optimizer(settings: Settings) -> None:
    having = [name for name, entry in OPTIMIZERS.items() if "momentum" in entry.options]
    if settings.momentum is not None and settings.optimizer not in having:
        raise UsageError(
            f"--momentum is an option of {' and '.join(having)}, not of {settings.optimizer}"
        )
    options = settings.optimizer_choices
    if options.get("nesterov") and not options.get("momentum"):
        raise UsageError("nesterov=true needs a --momentum above 0")
    for name in ("schedule_epochs", "schedule_factor"):
        if getattr(settings, name) is not None and settings.schedule not in ("step", "plateau"):
            raise UsageError(
                f"{flag(name)} is for --schedule step and plateau, not for {settings.schedule}"
            )
