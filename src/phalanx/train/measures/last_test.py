"""The test at the end of a training: what is written down of it, and what is shown."""

from dataclasses import replace
from typing import TYPE_CHECKING

from phalanx.data.targets.tasks import CLASSIFICATION
from phalanx.settings.metrics import BY_CLASS
from phalanx.settings.tokens import has_tokens
from phalanx.train.methods.held_out import evaluate_with
from phalanx.train.metrics import Metrics

if TYPE_CHECKING:
    from phalanx.train.session import Session
    from phalanx.train.trainer import Trainer

#: With more classes than these, what is taken for what is written down only if it is asked for.
MOST_CLASSES = 100


def last_test(session: "Session", trainer: "Trainer") -> tuple[Metrics, Metrics]:
    """Collective. What the test came to: all that is written down, and what is shown of it.

    What is taken for what costs next to nothing here, and nobody could tell afterwards.
    """
    settings, dataset = session.settings, session.dataset
    few = settings.task == CLASSIFICATION and len(dataset.classes) <= MOST_CLASSES
    asked = any(name in BY_CLASS for name in session.metrics)
    if asked or not few or has_tokens(settings):
        after = trainer.evaluate(dataset.test)
        return after, after
    after = evaluate_with(trainer, dataset.test, more=("confusion",))
    return after, replace(after, confusion=None)
