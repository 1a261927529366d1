"""Answers by task: what the outputs of a run's model say, and those that are no class a sample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from torch import Tensor

from phalanx.data.arrays import Array
from phalanx.data.targets.scale import TargetScale
from phalanx.data.targets.tasks import CLASSIFICATION, MULTI_LABEL, REGRESSION
from phalanx.inference.answer_formats import check_top
from phalanx.inference.answer_kinds import (
    AnswerKind,
    Cells,
    ClassAnswers,
    Column,
    probability_columns,
)
from phalanx.inference.probabilities import probabilities, probability_form
from phalanx.settings.table import Settings
from phalanx.settings.task_options import loss_of

#: What stands between the labels of a sample.
SEPARATOR = ";"
#: As many as numbers of single precision have, and so the numbers that a file had are seen again.
_DIGITS = 9


@final
@dataclass(frozen=True)
class ValueAnswers(AnswerKind):
    """The numbers of a regression, in the unit of its targets.

    With columns of other names `beside`, none that is a target's has one of them.
    """

    names: tuple[str, ...]
    scale: TargetScale | None = None
    beside: tuple[str, ...] = ()

    @property
    def answer_columns(self) -> tuple[Column, ...]:
        labels = (column.name for column in self.label_columns)
        taken = {"index", *labels, *self.beside} & set(self.names)
        of = "predicted " if taken else ""
        return tuple(Column(f"{of}{name}", "number", _DIGITS) for name in self.names)

    @property
    def label_columns(self) -> tuple[Column, ...]:
        one = len(self.names) == 1
        titles = ["label"] if one else [f"label {name}" for name in self.names]
        return tuple(Column(title, "number", _DIGITS) for title in titles)

    @property
    def detail_columns(self) -> tuple[Column, ...]:
        return ()

    def cells(self, outputs: Tensor) -> list[Cells]:
        return [*self._values(outputs).T]

    def arrays(self, outputs: Tensor) -> dict[str, Array]:
        return {"answer": self._values(outputs)}

    def constants(self) -> dict[str, Array]:
        return {"targets": np.array(self.names)}

    def answers(self, outputs: Tensor) -> list[Any]:
        """A number a sample, or a list of them in the order of the targets."""
        rows: list[list[float]] = self._values(outputs).tolist()
        return [row[0] for row in rows] if len(self.names) == 1 else rows

    def labels(self, said: Sequence[Any]) -> list[Cells]:
        return [*np.asarray(said, dtype=np.float64).reshape(-1, len(self.names)).T]

    def _values(self, outputs: Tensor) -> Array:
        rows = outputs.double() if self.scale is None else self.scale.restored(outputs)
        return rows.reshape(-1, len(self.names)).numpy()


@final
@dataclass(frozen=True)
class LabelAnswers(AnswerKind):
    """The labels that are likelier there than not, and the probability of each.

    With columns of other names `beside`, none that is a label's has one of them.
    """

    names: tuple[str, ...]
    beside: tuple[str, ...] = ()

    @property
    def answer_columns(self) -> tuple[Column, ...]:
        return (Column("labels", "text"),)

    @property
    def detail_columns(self) -> tuple[Column, ...]:
        return probability_columns(self.names, {"index", "labels", "label", *self.beside})

    def cells(self, outputs: Tensor) -> list[Cells]:
        labels = [SEPARATOR.join(names) for names in self.answers(outputs)]
        return [labels, *self.probabilities(outputs).numpy().T]

    def arrays(self, outputs: Tensor) -> dict[str, Array]:
        there = (outputs > 0).numpy()
        return {"answer": there, "probabilities": self.probabilities(outputs).numpy()}

    def constants(self) -> dict[str, Array]:
        return {"labels": np.array(self.names)}

    def answers(self, outputs: Tensor) -> list[Any]:
        """The names of a sample's labels, in their order."""
        # By outputs, as metrics have it: a probability can be one half where they are not 0.
        return [
            [name for name, there in zip(self.names, row, strict=True) if there]
            for row in (outputs > 0).tolist()
        ]

    def probabilities(self, outputs: Tensor) -> Tensor:
        return probabilities(outputs, "sigmoid")


def answer_kind(
    settings: Settings,
    classes: Sequence[str],
    *,
    task: str | None = None,
    scale: TargetScale | None = None,
    top: int | None = None,
    beside: Mapping[str, Any] | None = None,
) -> AnswerKind:
    """What the outputs of a run's model say: classes, or the values or labels of these names."""
    task, names, taken = task or CLASSIFICATION, tuple(classes), tuple(beside or ())
    check_top(top, len(names), task=task)
    if task == REGRESSION:
        return ValueAnswers(names, scale, taken)
    if task == MULTI_LABEL:
        return LabelAnswers(names, taken)
    form = probability_form(loss_of(task, settings.loss), settings.output_activation)
    return ClassAnswers(names, form, top, taken)
