"""What a model's outputs say, as columns: an object for each kind of answer.

Files of answers, the screen and `phalanx.load` know no more of a task than what is said here.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from torch import Tensor

from phalanx.data.arrays import Array
from phalanx.errors import UsageError
from phalanx.inference.answer_formats import check_top
from phalanx.inference.probabilities import Form, probabilities


@dataclass(frozen=True)
class Column:
    """A column of a table of answers: of texts, or of numbers in float64, which have so many digits
    where they are written as text."""

    name: str
    kind: Literal["text", "number"]
    digits: int = 6


#: The cells of a column: texts, or an array of numbers.
Cells = Sequence[str] | Array


class AnswerKind(ABC):
    """One kind of answer. Outputs are [samples, …], finite, and in memory."""

    @property
    def label_columns(self) -> tuple[Column, ...]:
        """Columns of what samples are said to be, where that is known, and what `labels` gives."""
        return (Column("label", "text"),)

    @property
    @abstractmethod
    def answer_columns(self) -> tuple[Column, ...]:
        """The answer itself, which stands before the label."""

    @property
    @abstractmethod
    def detail_columns(self) -> tuple[Column, ...]:
        """What more there is to say, after the label."""

    @abstractmethod
    def cells(self, outputs: Tensor) -> list[Cells]:
        """The cells of all columns of answers, then of all details, of some samples."""

    @abstractmethod
    def arrays(self, outputs: Tensor) -> dict[str, Array]:
        """The same as arrays by name, with one row a sample; texts are of a fixed width."""

    @abstractmethod
    def constants(self) -> dict[str, Array]:
        """Arrays that say what the others are about, such as the names of classes."""

    @abstractmethod
    def answers(self, outputs: Tensor) -> list[Any]:
        """The answer for each sample, as Python has it."""

    def labels(self, said: Sequence[Any]) -> list[Cells]:
        """The cells of all columns of labels, by what some samples are said to be."""
        return [said]

    def probabilities(self, outputs: Tensor) -> Tensor:
        """How likely each class is, a row a sample."""
        raise UsageError("this model tells no classes apart, and so has no probabilities of them")


@final
@dataclass(frozen=True)
class ClassAnswers(AnswerKind):
    """The likeliest class by its name, and the probability of each, or of the `top` ones alone.

    With columns of other names `beside`, none that is a class's has one of them.
    """

    classes: tuple[str, ...]
    form: Form = "softmax"
    top: int | None = None
    beside: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_top(self.top, len(self.classes))

    @property
    def answer_columns(self) -> tuple[Column, ...]:
        return (Column("class", "text"),)

    @property
    def detail_columns(self) -> tuple[Column, ...]:
        if self.top is None:
            return probability_columns(self.classes, {"index", "class", "label", *self.beside})
        columns = [Column("probability", "number")]
        for place in range(2, self.top + 1):
            columns += [Column(f"class_{place}", "text"), Column(f"probability_{place}", "number")]
        return tuple(columns)

    def cells(self, outputs: Tensor) -> list[Cells]:
        values = self.probabilities(outputs).numpy()
        if self.top is None:
            return [self.answers(outputs), *values.T]
        found: list[Cells] = []
        for places in self._best(outputs, self.top).numpy().T:
            found += [self._names(places), np.take_along_axis(values, places[:, None], 1)[:, 0]]
        return found

    def arrays(self, outputs: Tensor) -> dict[str, Array]:
        values, names = self.probabilities(outputs).numpy(), np.array(self.classes)
        if self.top is None:
            return {"answer": names[outputs.argmax(1).numpy()], "probabilities": values}
        places = self._best(outputs, self.top).numpy()
        return {
            "answer": names[places[:, 0]],
            "top": names[places],
            "probabilities": np.take_along_axis(values, places, 1),
        }

    def constants(self) -> dict[str, Array]:
        return {"classes": np.array(self.classes)}

    def answers(self, outputs: Tensor) -> list[Any]:
        # By outputs: probabilities can be the same where those are not.
        return self._names(outputs.argmax(1).numpy())

    def probabilities(self, outputs: Tensor) -> Tensor:
        return probabilities(outputs, self.form)

    def _best(self, outputs: Tensor, count: int) -> Tensor:
        """The likeliest classes; of several that are as likely, the first come first."""
        return outputs.argsort(dim=1, descending=True, stable=True)[:, :count]

    def _names(self, places: Array) -> list[str]:
        return [self.classes[place] for place in places.tolist()]


def probability_columns(names: Sequence[str], taken: set[str]) -> tuple[Column, ...]:
    """A column for the probability of each; by its name, unless one of these is `taken`."""
    of = "probability of " if taken & set(names) else ""
    return tuple(Column(f"{of}{name}", "number") for name in names)
