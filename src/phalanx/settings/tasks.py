"""What does not go together with a task: losses, metrics, outputs. Without torch."""

from phalanx.data.targets.tasks import MULTI_LABEL, REGRESSION
from phalanx.errors import UsageError
from phalanx.settings.metrics import ALWAYS, BY_TASK, RANKED
from phalanx.settings.table import Settings
from phalanx.settings.task_options import LOSSES
from phalanx.settings.tokens import measured


def check_task(settings: Settings, task: str) -> None:
    """Raise a UsageError for a choice that does not go with the task that a training has."""
    if settings.loss is not None and settings.loss not in LOSSES[task]:
        raise UsageError(
            f"--loss {settings.loss} is not for {task}: take {_ways(LOSSES[task])}, or leave it out"
        )
    for name in settings.metrics:
        if name not in (*BY_TASK[task], "accuracy"):
            raise UsageError(f"--metrics {name} is not for {task}: take {_ways(BY_TASK[task])}")
    if settings.raw_targets and task != REGRESSION:
        raise UsageError(f"--raw-targets is for regression, not for {task}")
    _check_goal(settings, task)
    _check_outputs(settings, task)


def _check_goal(settings: Settings, task: str) -> None:
    if settings.goal is None:
        return
    name = settings.goal[0]
    there = ("loss", *ALWAYS[task], *measured(settings))
    if name not in there:
        ways = f"one of {', '.join(there)}"
        also = f", or add --metrics {name}" if name in BY_TASK[task] else ""
        raise UsageError(f"--stop-at {name}: {task} is not measured by it: stop at {ways}{also}")
    if name in RANKED and not (settings.validation_split or settings.test_as_validation):
        raise UsageError(
            f"--stop-at {name}: it is measured on samples that are held out: add "
            "--validation-split 0.1, or --test-as-validation"
        )


def _check_outputs(settings: Settings, task: str) -> None:
    activation = settings.output_activation
    if activation in (None, "none"):
        return
    if task == MULTI_LABEL:
        raise UsageError(
            f"--output-activation {activation}: the loss of labels has a sigmoid of its own: leave "
            "it out"
        )
    if task == REGRESSION and not settings.raw_targets:
        raise UsageError(
            f"--output-activation {activation} keeps outputs from -1 to 1, and standardised "
            "targets are not: leave it out, or add --raw-targets"
        )


def _ways(names: tuple[str, ...]) -> str:
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
