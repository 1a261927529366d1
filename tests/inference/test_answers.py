"""Answers as csv."""

import io
from pathlib import Path

import pytest
import torch

from phalanx.inference.answers import Answers, Form, probability_form

CLASSES = ("a", "b", "c")


def written(answers: Answers) -> list[list[str]]:
    file = io.StringIO()
    answers.write(file)
    return [line.split(",") for line in file.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("loss", "activation", "form"),
    [
        ("cross-entropy", None, "softmax"),
        ("hinge", None, "softmax"),
        ("binary-cross-entropy", None, "sigmoid"),
        ("squared-error", None, "shares"),
        ("absolute-error", "tanh", "shares"),
        ("squared-error", "sigmoid", "none"),
    ],
)
def test_probabilities_are_made_as_the_loss_wants(
    loss: str, activation: str | None, form: Form
) -> None:
    assert probability_form(loss, activation) == form


def test_outputs_near_one_and_zero_are_probabilities_already() -> None:
    outputs = torch.tensor([[0.1, 0.9, -0.2], [1.25, 1.5, 0.0], [-2.0, -3.0, -1.0]])
    rows = written(Answers(outputs, CLASSES, form="shares"))
    assert rows[1] == ["0", "b", "0.1", "0.9", "0"]
    assert rows[2] == ["1", "b", "0.5", "0.5", "0"]
    assert rows[3] == ["2", "c", "0.333333", "0.333333", "0.333333"]


def test_files_without_an_answer_keep_their_row(tmp_path: Path) -> None:
    files = ("1.png", "2.png", "3.png")
    answers = Answers(torch.eye(3)[:2], CLASSES, form="none", files=files, places=[0, 2])
    answers.save(tmp_path / "answers.csv")
    assert (tmp_path / "answers.csv").read_text().splitlines() == [
        "index,file,class,a,b,c",
        "0,1.png,a,1,0,0",
        "1,2.png,,,,",
        "2,3.png,b,0,1,0",
    ]
