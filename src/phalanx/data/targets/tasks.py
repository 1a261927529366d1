"""The tasks by name, and which one numbers are of, where that is sure. Without torch."""

from collections.abc import Sequence

from phalanx.errors import UsageError

#: A class a sample; numbers a sample; labels that each are there or not, several a sample.
CLASSIFICATION, REGRESSION, MULTI_LABEL = "classification", "regression", "multi-label"
TASKS = (CLASSIFICATION, REGRESSION, MULTI_LABEL)

#: Fractions of so many values may be grades, with more they are measured.
_MOST_GRADES = 10
#: Whole numbers of so many values are classes, however many samples there are of each.
_FEW_CLASSES = 20
#: So many samples of each value, and they are classes as well, up to so many values.
_SAMPLES_A_CLASS, _MANY_CLASSES = 10, 1000


def task_of_numbers(
    *, values: int, samples: int, fractions: bool, labels: bool = False
) -> str | None:
    """The task of so many different values in a column of targets; None where nobody can tell.

    `labels` are whole numbers by their type, and never measured.
    """
    if fractions:
        return REGRESSION if values > _MOST_GRADES else None
    rare = 2 * values > samples
    if values <= _FEW_CLASSES or (labels and not rare):
        return CLASSIFICATION
    if labels:
        return None
    if rare:
        return REGRESSION
    many = values * _SAMPLES_A_CLASS <= samples and values <= _MANY_CLASSES
    return CLASSIFICATION if many else None


def unsure(where: str, seen: str, *, tasks: Sequence[str] = (CLASSIFICATION, REGRESSION)) -> str:
    """The sentence that asks for a task, after what was seen of the targets."""
    ways = " or ".join(f"--task {task}" for task in tasks)
    return f"{where} {seen}: say {ways}"


def check_takes(dataset: str, task: str | None) -> None:
    """Refuse another task than classification for a data set that has classes."""
    if task not in (None, CLASSIFICATION):
        raise UsageError(
            f"--task {task}: the targets of data set {dataset} are classes: leave it out"
        )
