"""What cannot work is refused here, before any rank starts and without importing torch."""

import os
from functools import partial
from pathlib import Path

from phalanx import data, models
from phalanx.data.tables.form import TableForm
from phalanx.data.targets.tasks import CLASSIFICATION
from phalanx.errors import UsageError
from phalanx.options import check_values
from phalanx.settings.failures import SHRINKING
from phalanx.settings.metrics import ALWAYS, OF_TRAINING, RANKED, check_metrics, check_watched
from phalanx.settings.optimizers import OPTIMIZERS
from phalanx.settings.own_training import check_own_training
from phalanx.settings.table import SETTINGS, Settings
from phalanx.settings.tasks import check_task
from phalanx.settings.tokens import check_tokens, measured
from phalanx.strategies import registry as strategies
from phalanx.strategies.rules import (
    Choices,
    check_alone,
    check_choices,
    check_idle,
    check_strategy,
)
from phalanx.strategies.scaling_rules import check_scaling
from phalanx.wording import flag

#: A file in a run's folder: whose it is while a training goes on.
LOCK = ".lock"


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
    check_own_training(settings)
    _check_weights(settings)
    _check_strategy(settings, ranks)
    _check_failures(settings, ranks)
    try:
        _check_paths(settings)
    except OSError as error:  # a name that is too long, or the current folder is gone
        raise UsageError(f"{error.filename or 'this folder'}: {error.strerror}") from error


def _spelled(precision: str | None, name: str) -> str:
    """As flags are; what Python calls autocast is a precision here."""
    return f"--precision {precision}" if name == "autocast" else flag(name)


def _check_strategy(settings: Settings, ranks: int) -> None:
    if settings.precision == "tf32" and settings.device == "cpu":
        raise UsageError("--precision tf32 is of GPUs: leave it out, or --device cpu")
    options = settings.strategy_options
    chosen = Choices(
        ranks=ranks,
        options=options,
        shards=settings.shards,
        clip_norm=settings.clip_norm,
        accumulate=settings.accumulate,
        compile=settings.compile,
        autocast=settings.precision in ("bf16", "fp16"),
        objective=settings.objective is not None,
        spell=partial(_spelled, settings.precision),
    )
    check_choices(chosen)
    strategy = settings.strategy or strategies.default_strategy(ranks, options)
    strategies.check(strategy, ranks, options=options, spell=flag)
    check_strategy(strategy, chosen)
    check_idle(strategy, chosen)
    check_alone(strategy, chosen)
    if settings.precision == "fp16":
        check_scaling(strategy, options, "--precision fp16", spell=flag)
    if settings.device == "cuda":
        name = settings.strategy or strategies.default_strategy(ranks, options, central=False)
        if (obstacle := strategies.gpu_obstacle(name, options, spell=flag)) is not None:
            raise UsageError(f"{obstacle}, or take --device cpu")


def _check_failures(settings: Settings, ranks: int) -> None:
    how = settings.on_failure
    if settings.restarts is not None and how != "restart":
        raise UsageError("--restarts is for --on-failure restart")
    if settings.replace and how != "shrink":
        raise UsageError("--replace is for --on-failure shrink")
    if how == "restart" and settings.checkpoint_every == "never":
        raise UsageError(
            "--on-failure restart goes on from checkpoints: leave out --checkpoint-every never"
        )
    if how != "shrink":
        return
    if ranks == 1:
        raise UsageError(
            "--on-failure shrink: one rank alone leaves none: take --ranks 2 or more, "
            "or --on-failure stop"
        )
    name = settings.strategy or strategies.default_strategy(ranks, settings.strategy_options)
    if name not in SHRINKING:
        raise UsageError(
            f"--on-failure shrink: a rank that is lost takes its part of '{name}' along: take "
            f"--strategy {' or '.join(SHRINKING)}, or --on-failure restart"
        )
    if settings.batch_size_per_rank is not None:
        raise UsageError(
            "--on-failure shrink: a batch must not shrink with the ranks: say --batch-size, the "
            "samples of all ranks together, instead of --batch-size-per-rank"
        )


def _check_paths(settings: Settings) -> None:
    trace, output = settings.trace, settings.output
    if trace is not None:
        if trace.is_dir():
            raise UsageError(f"--trace {trace} is a folder, not a file to write")
        _check_can_be_made(trace.parent, f"--trace {trace}")
    if output is not None and not output.exists():
        _check_can_be_made(output, f"--output {output}")
    elif output is not None:
        check_output(output)


def check_output(folder: Path) -> None:
    """Refuse a folder that is there for a training's output, and has something in it."""
    if not folder.is_dir():
        raise UsageError(f"--output {folder} is a file, not a folder")
    # A run that got no further than its settings has nothing to lose.
    if any(path.name not in ("config.json", LOCK) for path in folder.iterdir()):
        raise UsageError(f"--output {folder} is not empty: name a new folder, or remove it first")


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
    check_tokens(settings)
    check_watched(settings.watch)
    _check_watch(settings)
    goal = settings.goal
    always = {name for names in ALWAYS.values() for name in names}
    if goal is not None and goal[0] not in ("loss", *always, *measured(settings)):
        raise UsageError(f"--stop-at {settings.stop_at} needs --metrics {goal[0]}, too")
    if (task := _known_task(settings)) is not None:
        check_task(settings, task)


def _check_watch(settings: Settings) -> None:
    name = settings.watch.removeprefix(OF_TRAINING)
    always = {one for names in ALWAYS.values() for one in names}
    if name not in ("loss", *always, *measured(settings)):
        raise UsageError(f"--watch {settings.watch} needs --metrics {name}, too")
    if settings.watch != "loss" and not (
        settings.patience or settings.keep_best or settings.schedule == "plateau"
    ):
        raise UsageError(
            f"--watch {settings.watch} is what --patience, --keep-best or --schedule plateau goes "
            "by: give one of them, too, or leave it out"
        )
    if name in RANKED and name != settings.watch:
        raise UsageError(
            f"--watch {settings.watch}: {name} takes all samples at once, and so is measured of "
            f"validations alone: --watch {name}"
        )


def _known_task(settings: Settings) -> str | None:
    """The task, where it does not have to be seen from the targets."""
    entries = {entry.name: entry for entry in data.describe()}
    known = settings.dataset in entries and not entries[settings.dataset].takes_task
    return settings.task or (CLASSIFICATION if known else None)


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
    if settings.warm_up and settings.warm_up_steps:
        raise UsageError("--warm-up and --warm-up-steps say the same thing: give one")
    if settings.schedule_min_rate and settings.schedule == "constant":
        raise UsageError("--schedule-min-rate is for --schedule step, cosine and plateau")
    for name in ("schedule_epochs", "schedule_factor"):
        if getattr(settings, name) is not None and settings.schedule not in ("step", "plateau"):
            raise UsageError(
                f"{flag(name)} is for --schedule step and plateau, not for {settings.schedule}"
            )
