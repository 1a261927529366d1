"""What stands in for missing values, by the training rows, and rows that are left out."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from phalanx.data import check, load
from phalanx.data.split import Dataset
from phalanx.data.tables.form import form_from
from phalanx.errors import DataError, UsageError

TABLE = """\
size,sky,kind
1,rain,a
,clear,b
2,,a
6,rain,b
-,clear,a
1,rain,b
"""


def read(folder: Path, text: str = TABLE, **options: Any) -> Dataset:
    path = folder / "some.csv"
    path.write_text(text)
    options = {"test_split": 0} | options
    check("csv", path, options=options)
    return load("csv", data_dir=path, options=options)


@pytest.mark.parametrize(
    ("how", "number", "word"),
    [("mean", 2.5, [0, 1]), ("median", 1.5, [0, 1]), ("most-frequent", 1, [0, 1])],
)
def test_numbers_and_words_are_filled_in(
    tmp_path: Path, how: str, number: float, word: list[int]
) -> None:
    inputs = read(tmp_path, missing=how).train.inputs
    assert inputs[:, 0].tolist() == [1, number, 2, 6, number, 1]
    assert inputs[:, 1:].tolist() == [[0, 1], [1, 0], word, [0, 1], [1, 0], [0, 1]]


def test_what_is_missing_may_be_a_category_of_its_own(tmp_path: Path) -> None:
    dataset = read(tmp_path, missing="category")
    assert dataset.train.inputs.tolist() == [
        *([1, 0, 0, 1, 0], [2.5, 1, 1, 0, 0], [2, 0, 0, 0, 1]),
        *([6, 0, 0, 1, 0], [2.5, 1, 1, 0, 0], [1, 0, 0, 1, 0]),
    ]
    assert dataset.table is not None
    known = form_from(json.loads(json.dumps(dataset.table.for_json())), classes=dataset.classes)
    assert known == dataset.table


def test_the_test_rows_have_no_say(tmp_path: Path) -> None:
    lines = [f"{10**row},{'a' if row % 2 else 'b'}" for row in range(10)]
    text = "\n".join(["size,kind", *lines, ",a", ",b", ",a", ",b"]) + "\n"
    dataset = read(tmp_path, text, missing="mean", test_split=0.5)
    trained = dataset.train.inputs[:, 0]
    powers = {float(10**row) for row in range(10)}
    there = [one for one in trained.tolist() if one in powers]
    fill = sum(there) / len(there)
    rest = (*trained.tolist(), *dataset.test.inputs[:, 0].tolist())
    gaps = [one for one in rest if one not in powers]
    assert len(gaps) == 4
    assert gaps == pytest.approx([fill] * 4)
    assert 0 < len(there) < 10


def test_what_is_to_be_answered_is_filled_in_alike(tmp_path: Path) -> None:
    trained = read(tmp_path, missing="mean")
    other = tmp_path / "other.csv"
    other.write_text("size,sky,kind\nNA,?,a\n4,fog,b\n")
    again = load("csv", data_dir=other, options={"test_split": 0}, form=trained.table)
    assert again.test.inputs.tolist() == [[2.5, 0, 1], [4, 0, 0]]
    assert len(again.notes) == 1
    assert "1 row of 2 with values that the training's rows do not have" in again.notes[0]


def test_columns_that_miss_nothing_can_do_so_later(tmp_path: Path) -> None:
    trained = read(tmp_path, "size,sky,kind\n1,rain,a\n3,clear,b\n", missing="category")
    assert trained.input_shape == (3,)
    other = tmp_path / "other.csv"
    other.write_text("size,sky,kind\n,,a\n")
    again = load("csv", data_dir=other, options={"test_split": 0}, form=trained.table)
    assert again.test.inputs.tolist() == [[2, 0, 0]]
    assert "taken as none of theirs: (missing)" in again.notes[0]


@pytest.mark.parametrize(
    ("text", "options", "cause"),
    [
        (TABLE, {}, r"line 3, column 'size': the value is missing \(''\).*--missing, or --drop"),
        ("size,kind\n1,a\n2,?\n", {"missing": "mean"}, "column 'kind': the value is missing"),
        ("x,y,kind\n,1,a\nNA,2,b\n", {"missing": "mean"}, "column 'x' is empty: --drop 'x'"),
        (
            "x,kind\n1.5,a\nbig,b\n" + "2.5,b\n" * 10,
            {"missing": "mean"},
            "line 3, column 'x': 'big' is not a number",
        ),
    ],
)
def test_what_cannot_be_filled_in_is_refused(
    tmp_path: Path, text: str, options: dict[str, str], cause: str
) -> None:
    with pytest.raises(DataError, match=cause):
        read(tmp_path, text, **options)


def test_other_ways_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--missing must be one of refuse, mean"):
        read(tmp_path, missing="meen")


def test_bad_rows_may_be_left_out(tmp_path: Path) -> None:
    text = TABLE + "3,rain\n4,fog,\n5,fog,b\n"
    dataset = read(tmp_path, text, skip_bad=True)
    assert dataset.train.inputs.tolist() == [[1, 0, 1], [6, 0, 1], [1, 0, 1], [5, 1, 0]]
    assert dataset.train.inputs.dtype == torch.uint8
    (note,) = dataset.notes
    assert note.startswith("left out: 5 rows of 9, the first: ")
    with pytest.raises(DataError, match=r"no row can be used; the first: .*line 2"):
        read(tmp_path, "size,kind\n,a\n,b\n", skip_bad=True)
