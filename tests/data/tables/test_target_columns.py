"""Tables whose targets are numbers or labels."""

import json
from pathlib import Path
from typing import Any

import pytest

from phalanx.data import check, load
from phalanx.data.split import Dataset
from phalanx.data.tables.form import form_from
from phalanx.errors import DataError, UsageError

NUMBERS = "x,price,rent\n" + "".join(f"{i},{i * 1.5},{i / 7:.3f}\n" for i in range(20))
LABELS = "x,kinds\n1,a|b\n2,b\n3,a\n4,c|a\n5,b|c\n6,\n"
SEVERAL = ("ab", "b", "a", "ca", "bc", "")
FLAGS = "x,old,new\n1,0,1\n2,1,1\n3,0,0\n4,1,0\n"


def read(tmp_path: Path, text: str, **options: Any) -> Dataset:
    (tmp_path / "some.csv").write_text(text)
    check("csv", tmp_path, options={"test_split": 0.0, **options})
    return load("csv", data_dir=tmp_path, options={"test_split": 0.0, **options})


def test_numbers_are_a_regression(tmp_path: Path) -> None:
    dataset = read(tmp_path, NUMBERS)
    assert (dataset.task, dataset.classes, dataset.input_shape) == ("regression", ("rent",), (2,))
    assert dataset.train.targets[:3].tolist() == [[0], [0.143], [0.286]]


def test_several_columns_of_numbers(tmp_path: Path) -> None:
    dataset = read(tmp_path, NUMBERS, target="rent, price")
    assert (dataset.task, dataset.classes) == ("regression", ("rent", "price"))
    assert dataset.input_shape == (1,)
    assert dataset.train.targets[1].tolist() == [0.143, 1.5]


@pytest.mark.parametrize(("separator", "task"), [("|", None), (";", None), (", ", "multi-label")])
def test_labels_in_a_cell(tmp_path: Path, separator: str, task: str | None) -> None:
    """Commas are in names, too: labels they part only if that is said."""
    cells = [f'{number},"{separator.join(one)}"' for number, one in enumerate(SEVERAL)]
    text = "\n".join(["x,kinds", *cells]) + "\n"
    dataset = read(tmp_path, text, **({} if task is None else {"task": task}))
    assert (dataset.task, dataset.classes) == ("multi-label", ("a", "b", "c"))
    assert dataset.train.targets.tolist() == [[name in one for name in "abc"] for one in SEVERAL]


def test_labels_in_columns(tmp_path: Path) -> None:
    dataset = read(tmp_path, FLAGS, target="old,new")
    assert (dataset.task, dataset.classes) == ("multi-label", ("old", "new"))
    assert dataset.train.targets.tolist() == [[0, 1], [1, 1], [0, 0], [1, 0]]


def test_classes_with_a_separator_in_their_name_stay_classes(tmp_path: Path) -> None:
    dataset = read(tmp_path, "x,kind\n1,a|b\n2,c|d\n3,a|b\n")
    assert (dataset.task, dataset.classes) == ("classification", ("a|b", "c|d"))


def test_a_column_may_have_a_comma_in_its_name(tmp_path: Path) -> None:
    text = 'x,"old,new"\n1,a\n2,b\n'
    assert read(tmp_path, text, target="old,new").classes == ("a", "b")


def test_a_task_that_is_asked_for(tmp_path: Path) -> None:
    grades = "x,grade\n" + "".join(f"{i},{i % 3 / 2}\n" for i in range(12))
    assert read(tmp_path, grades, task="classification").classes == ("0.0", "0.5", "1.0")
    assert read(tmp_path, grades, task="regression").classes == ("grade",)
    flag = read(tmp_path, FLAGS, task="multi-label")
    assert (flag.classes, flag.train.targets.tolist()) == (("new",), [[1], [1], [0], [0]])


@pytest.mark.parametrize(
    ("text", "options", "cause"),
    [
        ("x,y\n1,0.5\n2,1\n", {}, "column 'y' holds 2 different numbers in 2 rows: say --task"),
        ("x,y\n1,2\n2,a\n", {"task": "regression"}, "line 3, column 'y': 'a' is not a number"),
        ("x,y,z\n1,2,a\n2,3,b\n", {"target": "y,z"}, "'z' holds words, and several target"),
        ("x,y,z\n1,2,0\n2,3,1\n", {"target": "y,z"}, "columns 'y', 'z' hold .*: say --task reg"),
        (FLAGS + "5,2,0\n", {"target": "old,new", "task": "multi-label"}, "'2' is neither 0 nor 1"),
        ("x,y\n1,0.1\n2,\n3,0.2\n", {"task": "regression"}, "line 3.*value is missing"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, options: dict[str, Any], cause: str) -> None:
    (tmp_path / "some.csv").write_text(text)
    with pytest.raises(DataError, match=cause):
        check("csv", tmp_path, options=options)


def test_an_unknown_target_is_named(tmp_path: Path) -> None:
    (tmp_path / "some.csv").write_text(FLAGS)
    with pytest.raises(UsageError, match=r"--target news: .* has columns x, old, new"):
        check("csv", tmp_path, options={"target": "old,news"})


@pytest.mark.parametrize(
    ("text", "target"), [(NUMBERS, "price,rent"), (LABELS, None), (FLAGS, "new,old")]
)
def test_other_tables_are_read_by_the_form(tmp_path: Path, text: str, target: str | None) -> None:
    dataset = read(tmp_path, text, **({} if target is None else {"target": target}))
    assert dataset.table is not None
    kept = json.loads(json.dumps(dataset.table.for_json()))
    form = form_from(kept, classes=dataset.classes)
    assert form == dataset.table
    again = load("csv", data_dir=tmp_path, options={"test_split": 0.0}, form=form)
    assert (again.task, again.classes) == (dataset.task, dataset.classes)
    assert again.test.targets.tolist() == dataset.train.targets.tolist()


def test_a_label_that_training_does_not_know(tmp_path: Path) -> None:
    form = read(tmp_path, LABELS).table
    assert form is not None
    (tmp_path / "some.csv").write_text("x,kinds\n1,a|q\n")
    with pytest.raises(DataError, match="line 2, column 'kinds': 'q' is no label of the training"):
        load("csv", data_dir=tmp_path, form=form)
