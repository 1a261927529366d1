"""Answers as files: csv, Parquet, NumPy archives."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from phalanx.errors import UsageError
from phalanx.inference import answers as answers_module
from phalanx.inference.answer_formats import answers_suffix
from phalanx.inference.answer_kinds import ClassAnswers
from phalanx.inference.answers import Answers, check_names
from phalanx.inference.probabilities import Form, probability_form

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
    rows = written(Answers(outputs, ClassAnswers(CLASSES, "shares")))
    assert rows[1] == ["0", "b", "0.1", "0.9", "0"]
    assert rows[2] == ["1", "b", "0.5", "0.5", "0"]
    assert rows[3] == ["2", "c", "0.333333", "0.333333", "0.333333"]


def test_files_without_an_answer_keep_their_row(tmp_path: Path) -> None:
    files = ("1.png", "2.png", "3.png")
    answers = Answers(
        torch.eye(3)[:2],
        ClassAnswers(CLASSES, "none"),
        beside={"file": files},
        places=[0, 2],
        count=3,
        labels=["a", "", "c"],
    )
    answers.save(tmp_path / "answers.csv")
    assert (tmp_path / "answers.csv").read_text().splitlines() == [
        "index,file,class,label,a,b,c",
        "0,1.png,a,a,1,0,0",
        "1,2.png,,,,,",
        "2,3.png,b,c,0,1,0",
    ]


def some(top: int | None = None) -> Answers:
    """Answers for five samples, of which the third and the last could not be read."""
    outputs = torch.tensor([[0.1, 0.9, 0.0], [0.7, 0.1, 0.2], [0.3, 0.3, 0.4]])
    return Answers(
        outputs,
        ClassAnswers(CLASSES, "none", top),
        places=[0, 1, 3],
        count=5,
        beside={"who": ["ann", "bob", "cid", "dörte", ""]},
        labels=["b", "", "c", "c", ""],
    )


@pytest.fixture(params=[2, 4096])
def rows_at_a_time(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers_module, "ROWS", request.param)


@pytest.mark.usefixtures("rows_at_a_time")
def test_the_likeliest_classes_alone(tmp_path: Path) -> None:
    assert written(some(top=2)) == [
        ["index", "who", "class", "label", "probability", "class_2", "probability_2"],
        ["0", "ann", "b", "b", "0.9", "a", "0.1"],
        ["1", "bob", "a", "", "0.7", "c", "0.2"],
        ["2", "cid", "", "c", "", "", ""],
        ["3", "dörte", "c", "c", "0.4", "a", "0.3"],
        ["4", "", "", "", "", "", ""],
    ]
    some(top=2).save(tmp_path / "answers.npz")
    with np.load(tmp_path / "answers.npz", allow_pickle=False) as found:
        assert found["top"].tolist() == [["b", "a"], ["a", "c"], ["", ""], ["c", "a"], ["", ""]]
        assert found["probabilities"].shape == (5, 2)


@pytest.mark.usefixtures("rows_at_a_time")
def test_parquet_has_types_and_nulls(tmp_path: Path) -> None:
    some().save(tmp_path / "answers.parquet")
    table = pq.read_table(tmp_path / "answers.parquet")
    types = {field.name: str(field.type) for field in table.schema}
    assert types == {
        "index": "int64",
        "who": "string",
        "class": "string",
        "label": "string",
        **dict.fromkeys(CLASSES, "double"),
    }
    rows = table.to_pylist()
    assert rows[0] == dict(
        index=0,
        who="ann",
        label="b",
        **{"class": "b"},
        a=some().outputs[0, 0].double().item(),
        b=some().outputs[0, 1].double().item(),
        c=0.0,
    )
    assert rows[2] == dict(index=2, who="cid", label="c", **{"class": None}, a=None, b=None, c=None)
    assert rows[4]["label"] is None


@pytest.mark.usefixtures("rows_at_a_time")
def test_archives_are_arrays_alone(tmp_path: Path) -> None:
    answers = some()
    answers.save(tmp_path / "answers.npz")
    with np.load(tmp_path / "answers.npz", allow_pickle=False) as found:
        arrays = dict(found)
    assert list(arrays) == ["id", "answer", "probabilities", "label", "outputs", "classes"]
    assert arrays["id"].tolist() == ["ann", "bob", "cid", "dörte", ""]
    assert arrays["answer"].tolist() == ["b", "a", "", "c", ""]
    assert arrays["classes"].tolist() == list(CLASSES)
    read = [0, 1, 3]
    np.testing.assert_array_equal(arrays["outputs"][read], answers.outputs.numpy())
    assert arrays["outputs"].dtype == np.float32
    np.testing.assert_array_equal(arrays["probabilities"][read], answers.outputs.double().numpy())
    assert np.isnan(arrays["probabilities"][[2, 4]]).all()
    # The same answers are the same bytes tomorrow.
    times = {one.date_time for one in zipfile.ZipFile(tmp_path / "answers.npz").infolist()}
    assert times == {(1980, 1, 1, 0, 0, 0)}


def test_samples_without_a_name_have_their_number(tmp_path: Path) -> None:
    Answers(torch.eye(3).to(torch.bfloat16), ClassAnswers(CLASSES)).save(tmp_path / "answers.npz")
    with np.load(tmp_path / "answers.npz", allow_pickle=False) as found:
        assert found["id"].tolist() == [0, 1, 2]
        assert found["outputs"].tolist() == np.eye(3).tolist()
        assert "label" not in found


def test_columns_of_one_name_are_told_apart() -> None:
    header = written(Answers(torch.eye(2), ClassAnswers(("yes", "label"))))[0]
    assert header == ["index", "class", "probability of yes", "probability of label"]
    beside = {"yes": ["1", "2"]}
    kind = ClassAnswers(("yes", "no"), beside=tuple(beside))
    check_names(kind, beside)
    header = written(Answers(torch.eye(2), kind, beside=beside))[0]
    assert header == ["index", "yes", "class", "probability of yes", "probability of no"]
    rows = written(Answers(torch.eye(2), ClassAnswers(("a", "b")), beside={"index": ["7", "8"]}))
    assert [row[:2] for row in rows] == [["index", "class"], ["7", "a"], ["8", "b"]]
    for name in ("class", "label", "probability"):
        with pytest.raises(UsageError, match=f"--id {name}: answers have a column"):
            check_names(ClassAnswers(CLASSES, top=1), [name])


def test_what_cannot_be_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answers_suffix(Path("answers")) == ".csv"
    assert answers_suffix(Path("ANSWERS.NPZ")) == ".npz"
    with pytest.raises(UsageError, match=r"answers\.json: .* as \.csv, \.parquet or \.npz"):
        answers_suffix(Path("answers.json"))
    monkeypatch.setattr("phalanx.inference.answer_formats.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'phalanx\[parquet\]'"):
        answers_suffix(Path("answers.parquet"))
    for top in (0, 4):
        with pytest.raises(UsageError, match=f"--top {top}: the model knows 3 classes: take 1 to"):
            ClassAnswers(CLASSES, top=top)
