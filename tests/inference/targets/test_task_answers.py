"""What the outputs of a regression and of labels say, in files and in Python."""

import io
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from phalanx.data.targets.scale import TargetScale
from phalanx.data.targets.tasks import MULTI_LABEL, REGRESSION
from phalanx.errors import UsageError
from phalanx.inference.answer_kinds import ClassAnswers
from phalanx.inference.answers import Answers, check_names
from phalanx.inference.targets.answers import LabelAnswers, ValueAnswers, answer_kind
from phalanx.settings.table import Settings

NAMES = ("price", "rent")
SCALE = TargetScale(torch.tensor([300.0, 10.0]), torch.tensor([100.0, 2.0]))
LABELS = ("comedy", "drama")


def written(answers: Answers) -> list[str]:
    file = io.StringIO()
    answers.write(file)
    return file.getvalue().splitlines()


def values() -> Answers:
    """Of three samples, the second of which could not be read, and of the first nothing is said."""
    outputs = torch.tensor([[0.0, 1.0], [-1.0, 0.123456789]])
    said = [[float("nan")] * 2, [1.0, 2.0], [123456.75, -0.5]]
    return Answers(outputs, ValueAnswers(NAMES, SCALE), places=[0, 2], count=3, labels=said)


def labels() -> Answers:
    outputs = torch.tensor([[1e-30, 2.0], [-1.0, -2.0]])
    return Answers(outputs, LabelAnswers(LABELS), places=[0, 2], count=3, labels=["drama", "", ""])


def test_values_are_in_the_unit_of_the_targets() -> None:
    assert written(values()) == [
        "index,price,rent,label price,label rent",
        "0,300,12,,",
        "1,,,1,2",
        "2,200,10.2469136,123456.75,-0.5",
    ]
    plain = Answers(torch.tensor([[1 / 3]]), ValueAnswers(("price",)), labels=[[7.0]])
    assert written(plain) == ["index,price,label", "0,0.333333343,7"]


def test_labels_are_those_that_are_likelier_than_not() -> None:
    """By outputs: the probability of the first is one half to the last bit."""
    assert written(labels()) == [
        "index,labels,label,comedy,drama",
        "0,comedy;drama,drama,0.5,0.880797",
        "1,,,,",
        "2,,,0.268941,0.119203",
    ]


def test_parquet_has_types_and_nulls(tmp_path: Path) -> None:
    values().save(tmp_path / "values.parquet")
    table = pq.read_table(tmp_path / "values.parquet")
    assert [str(field.type) for field in table.schema] == ["int64", *["double"] * 4]
    first, second, third = table.to_pylist()
    assert first == {"index": 0, "price": 300, "rent": 12, "label price": None, "label rent": None}
    assert (second["price"], second["label rent"], third["price"]) == (None, 2, 200)
    labels().save(tmp_path / "labels.parquet")
    table = pq.read_table(tmp_path / "labels.parquet")
    assert [row["labels"] for row in table.to_pylist()] == ["comedy;drama", None, ""]


def test_archives_are_arrays_alone(tmp_path: Path) -> None:
    values().save(tmp_path / "values.npz")
    with np.load(tmp_path / "values.npz", allow_pickle=False) as found:
        arrays = dict(found)
    assert list(arrays) == ["id", "answer", "label price", "label rent", "outputs", "targets"]
    np.testing.assert_array_equal(arrays["answer"][:2], [[300, 12], [np.nan, np.nan]])
    assert arrays["targets"].tolist() == list(NAMES)
    labels().save(tmp_path / "labels.npz")
    with np.load(tmp_path / "labels.npz", allow_pickle=False) as found:
        arrays = dict(found)
    assert list(arrays) == ["id", "answer", "probabilities", "label", "outputs", "labels"]
    assert arrays["answer"].tolist() == [[True, True], [False, False], [False, False]]
    assert np.isnan(arrays["probabilities"]).any(1).tolist() == [False, True, False]


def test_answers_as_python_has_them() -> None:
    outputs = torch.tensor([[0.0, 1.0], [-1.0, 0.5]])
    assert ValueAnswers(NAMES, SCALE).answers(outputs) == [[300, 12], [200, 11]]
    assert ValueAnswers(("price",)).answers(outputs[:, 1:]) == [1.0, 0.5]
    assert LabelAnswers(LABELS).answers(outputs) == [["drama"], ["drama"]]
    with pytest.raises(UsageError, match="tells no classes apart"):
        ValueAnswers(NAMES).probabilities(outputs)


def test_columns_of_one_name_are_told_apart() -> None:
    kind = ValueAnswers(("label",))
    assert written(Answers(torch.ones(1, 1), kind))[0] == "index,predicted label"
    beside = {"price": ["7"]}
    kind = ValueAnswers(("price",), beside=tuple(beside))
    check_names(kind, beside)
    header = written(Answers(torch.ones(1, 1), kind, beside=beside))[0]
    assert header == "index,price,predicted price"
    header = written(Answers(torch.ones(1, 1), LabelAnswers(("labels",))))[0]
    assert header == "index,labels,probability of labels"


def test_the_task_chooses_the_kind() -> None:
    settings = Settings()
    assert answer_kind(settings, NAMES) == ClassAnswers(NAMES)
    found = answer_kind(settings, NAMES, task=REGRESSION, scale=SCALE)
    assert found == ValueAnswers(NAMES, SCALE)
    assert answer_kind(settings, LABELS, task=MULTI_LABEL) == LabelAnswers(LABELS)
    with pytest.raises(UsageError, match="--top 1 is for models that tell classes apart, not for"):
        answer_kind(settings, LABELS, task=MULTI_LABEL, top=1)
