"""Whether a training has learned anything, and what to try if not."""

from collections.abc import Sequence

import torch
from torch import Tensor

from phalanx.settings.defaults import defaults_of, nominal_rate
from phalanx.settings.table import Settings
from phalanx.train.metrics import Metrics
from phalanx.train.position import Position
from phalanx.train.session import Session

#: Fewer steps than that are a test of something else: nothing could have been learned.
_FEWEST_STEPS = 50
#: A loss that has become less by no more than that part of what it was has not fallen.
_STILL = 0.02
#: What may be right by chance, of all that always giving the same answer gets wrong.
_CHANCE = 0.1


def look_back(
    session: Session, position: Position, *, test: Metrics, losses: tuple[float, float] | None
) -> str | None:
    """What to say about a training that is over, with this test and these losses; see `advice`."""
    return advice(
        session.settings,
        steps=position.step,
        losses=losses if position.epoch > 1 else None,
        accuracy=test.accuracy,
        most_frequent=most_frequent(session.dataset.test.targets, session.dataset.classes),
    )


def advice(
    settings: Settings,
    *,
    steps: int,
    losses: tuple[float, float] | None,
    accuracy: float | None,
    most_frequent: tuple[str, float] | None,
) -> str | None:
    """What to say about a training that has learned nothing; None if it has, or could not have.

    `losses` are those of its first and last epoch, where there are several; `most_frequent` is the
    class that most samples of the test are of, and its share of them.
    """
    if steps < _FEWEST_STEPS:
        return None
    said = None
    # Of an objective it may be below 0.
    fell = losses is None or losses[1] < losses[0] - _STILL * abs(losses[0])
    if most_frequent is not None and accuracy is not None:
        answer, share = most_frequent
        if accuracy <= share or (not fell and accuracy <= share + _CHANCE * (1 - share)):
            best = f"where the best constant answer, '{answer}', gets {share:.2%}"
            said = f"{accuracy:.2%} right, {best}"
    elif losses is not None and not fell:
        said = f"the loss was {losses[0]:.4g} in the first epoch and {losses[1]:.4g} in the last"
    if said is None:
        return None
    help_with = _tries(settings, losses)
    return f"this network has learned next to nothing: {said}\nwhat may help: {help_with}"


def most_frequent(targets: Tensor, classes: Sequence[str]) -> tuple[str, float] | None:
    """The class that most of these samples are of, and its share; None if they have no classes."""
    if targets.is_floating_point() or targets.dim() != 1 or not len(targets) or not classes:
        return None
    counts = torch.bincount(targets, minlength=len(classes))
    number = int(counts.argmax())
    return classes[number], int(counts[number]) / len(targets)


def _tries(settings: Settings, losses: tuple[float, float] | None) -> str:
    tries = []
    if not settings.normalise and settings.dataset != "synthetic":
        tries.append("--normalise")
    rate, usual = nominal_rate(settings), defaults_of(settings.model, settings.dataset)
    if settings.optimizer not in ("adam", "adamw"):
        tries.append("--optimizer adam")
    elif rate != usual["learning_rate"]:
        tries.append(f"--learning-rate {usual['learning_rate']:g}")
    elif losses is not None and losses[1] >= losses[0]:
        tries.append(f"--learning-rate {rate / 10:g}")
    tries.append(f"--epochs {max(3 * settings.epochs, usual['epochs'])}")
    return ", ".join(tries)
