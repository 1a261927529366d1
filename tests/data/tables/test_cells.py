from pathlib import Path

import pytest

from phalanx.data import check, load
from phalanx.errors import DataError


def write(folder: Path, text: str) -> Path:
    (folder / "some.csv").write_text(text)
    return folder / "some.csv"


def rows(*cells: str, count: int = 30) -> str:
    """Numbers and two classes, with these cells after them."""
    plain = [f"{number},{'ab'[number % 2]}\n" for number in range(count)]
    return "".join(["x,kind\n", *plain, *(f"{cell},a\n" for cell in cells)])


@pytest.mark.parametrize(
    "cell", ["", "-", "--", ".", "NA", "#N/A", "<NA>", "-nan", "NaT", "#DIV/0!", "1.#QNAN"]
)
def test_a_number_that_is_missing(tmp_path: Path, cell: str) -> None:
    for count in (2, 30):
        file = write(tmp_path, rows(cell, count=count))
        cause = rf"line {count + 2}, column 'x': the value is missing \('{cell}'\); .*--drop 'x'"
        with pytest.raises(DataError, match=rf"some.csv: {cause}"):
            check("csv", file)


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e999"])
@pytest.mark.parametrize("count", [2, 30])
def test_a_number_that_is_not_finite(tmp_path: Path, cell: str, count: int) -> None:
    file = write(tmp_path, rows(cell, count=count))
    cause = rf"line {count + 2}, column 'x': '{cell}' is not a finite number; .*--drop 'x'"
    with pytest.raises(DataError, match=cause):
        check("csv", file)


def test_a_few_words_among_numbers_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path, rows("1.5 kg", count=9))
    cause = r"some.csv: line 11, column 'x': '1.5 kg' is not a number, .*correct .*--drop 'x'"
    with pytest.raises(DataError, match=cause):
        check("csv", file)


@pytest.mark.parametrize("text", [rows("big", count=8), rows("big", "small", count=17)])
def test_more_words_among_numbers_are_categories(tmp_path: Path, text: str) -> None:
    dataset = load("csv", data_dir=write(tmp_path, text), options={"test_split": 0})
    assert dataset.input_shape == (len(dataset.train),)


def test_a_class_that_is_a_word_among_numbers_is_refused(tmp_path: Path) -> None:
    lines = [f"{number},{number % 3}\n" for number in range(20)]
    file = write(tmp_path, "".join(["x,kind\n", *lines, "7,O\n"]))
    with pytest.raises(DataError, match="line 22, column 'kind': 'O' is not a number") as error:
        check("csv", file)
    assert "--drop" not in str(error.value)


def test_dashes_and_the_like_can_be_categories(tmp_path: Path) -> None:
    file = write(tmp_path, "verb,sign\nfin,+\ninf,-\nfin,-\n")
    dataset = load("csv", data_dir=file, options={"test_split": 0})
    assert dataset.classes == ("+", "-")
    assert dataset.train.inputs.tolist() == [[1, 0], [0, 1], [1, 0]]


@pytest.mark.parametrize("cell", ["", "NA", "-", "inf", "1.5 kg"])
def test_columns_that_are_dropped_may_hold_anything(tmp_path: Path, cell: str) -> None:
    lines = [f"{number},{number},{'ab'[number % 2]}\n" for number in range(20)]
    file = write(tmp_path, "".join(["id,x,kind\n", *lines, f"{cell},20,a\n"]))
    with pytest.raises(DataError, match="line 22, column 'id'"):
        check("csv", file)
    options = {"drop": "id", "test_split": 0}
    check("csv", file, options=options)
    assert load("csv", data_dir=file, options=options).train.inputs[20].tolist() == [20]


@pytest.mark.parametrize(
    "cells",
    [
        ["1,5", "2,3", "10,25"],
        ["1,5", "2", "-2,5", "?"],
        ["1,234", "12,345.5", "950"],
        ["1.234,5", "2.345,75", "950,5"],
        ["1 234", "12 345", "950"],
        [*["1,5"] * 19, "none at all"],
    ],
)
@pytest.mark.parametrize("column", ["size", "kind"])
def test_numbers_with_a_decimal_comma_are_refused(
    tmp_path: Path, cells: list[str], column: str
) -> None:
    text = "".join(f"{cell};{'ab'[row % 2]}\n" for row, cell in enumerate(cells))
    file = write(tmp_path, "size;kind\n" + text if column == "size" else "kind;other\n" + text)
    cause = (
        f"some.csv: line 2, column '{column}': '{cells[0]}', as nearly all .* has a decimal comma"
    )
    with pytest.raises(DataError, match=rf"{cause} .*: write such numbers as 1.5 and 1234"):
        check("csv", file, options={"target": "kind"})


def test_lists_of_numbers_can_be_categories(tmp_path: Path) -> None:
    file = write(tmp_path, "chosen;kind\n1;a\n1,2;b\n2;a\n1;b\n2;b\n1;a\n1,2,3;b\n")
    assert load("csv", data_dir=file, options={"test_split": 0}).input_shape == (4,)
