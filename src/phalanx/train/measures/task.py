"""The task of a training, once its data is there: what it is measured by, and what goes with it."""

import logging

from phalanx.data.split import Dataset
from phalanx.data.targets.tasks import CLASSIFICATION, MULTI_LABEL, REGRESSION
from phalanx.settings.metrics import ALWAYS, RANKED
from phalanx.settings.table import Settings
from phalanx.settings.task_options import loss_of
from phalanx.settings.tasks import check_task
from phalanx.settings.tokens import measured as asked_for

#: So many outputs are put in order without being asked for.
_MOST_RANKED = 2_000_000
_REASONS = {
    REGRESSION: "the targets are numbers",
    MULTI_LABEL: "every sample has labels that are each there or not",
}
log = logging.getLogger("phalanx.data")


def with_task(settings: Settings, dataset: Dataset) -> Settings:
    """The settings with the data's task and its loss; a UsageError if they do not go together."""
    task = dataset.task or settings.task or CLASSIFICATION
    check_task(settings, task)
    if settings.objective is not None:  # in place of a loss
        return settings.changed(task=task)
    return settings.changed(task=task, loss=loss_of(task, settings.loss))


def tell_task(dataset: Dataset) -> None:
    """Say which task was found, if it is not the usual one."""
    if dataset.task in _REASONS and dataset.name != "synthetic":
        log.info("task: %s, since %s", dataset.task, _REASONS[dataset.task])


def measured(settings: Settings, dataset: Dataset) -> tuple[str, ...]:
    """The metrics of a training: what its task always has, and what was asked for."""
    task = settings.task or CLASSIFICATION
    names = [*ALWAYS[task]]
    if task == MULTI_LABEL and len(dataset.test) * len(dataset.classes) <= _MOST_RANKED:
        names += RANKED
    always = (name for name in names if name != "accuracy")
    return tuple(dict.fromkeys((*always, *asked_for(settings))))
