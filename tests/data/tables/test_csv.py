import gzip
from pathlib import Path

import pytest
import torch

from phalanx.data import check, load
from phalanx.errors import DataError, UsageError

WEATHER = """\
day,wind,humidity,sky,play
1,3.5,40,clear,yes
2,1.0,85,cloudy,no
3,0.5,90,rain,no
4,2.0,35,clear,yes
"""


def write(folder: Path, text: str, name: str = "some.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_numbers_stay_categories_become_columns(tmp_path: Path) -> None:
    write(tmp_path, WEATHER)
    check("csv", tmp_path)
    dataset = load("csv", data_dir=tmp_path, options={"test_split": 0})
    assert dataset.classes == ("no", "yes")
    assert dataset.train.targets.tolist() == [1, 0, 0, 1]
    assert dataset.input_shape == (6,)
    assert dataset.train.inputs[1].tolist() == [2, 1.0, 85, 0, 1, 0]


@pytest.mark.parametrize("target", ["sky", "3", "-2"])
def test_the_class_is_the_column_that_target_names(tmp_path: Path, target: str) -> None:
    file = write(tmp_path, WEATHER)
    options = {"target": target, "drop": "day", "test_split": 0}
    dataset = load("csv", data_dir=file, options=options)
    assert dataset.classes == ("clear", "cloudy", "rain")
    assert dataset.train.inputs[0].tolist() == [3.5, 40, 0, 1]


def test_whole_numbers_are_classes_in_the_order_of_their_size(tmp_path: Path) -> None:
    file = write(tmp_path, "1,10\n2,9\n3,10.0\n4,-1\n")
    dataset = load("csv", data_dir=file, options={"test_split": 0})
    assert dataset.classes == ("-1", "9", "10")
    assert dataset.train.targets.tolist() == [2, 1, 2, 0]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("1,2,a\n3,4,b\n", 2),
        ("x,y,kind\n3,4,b\n5,6,a\n", 2),
        ("colour,size,kind\nred,big,a\nblue,small,b\nred,big,b\n", 3),
        ("red,big,a\nblue,small,b\nred,big,b\n", 3),
        ("\ufeffx;kind\n1;a\n2;b\n", 2),
        ("x\tkind\r\n1\ta\r\n\r\n2\tb\r\n", 2),
        ('"x, in cm","kind"\n1,"a"\n2,"b"\n', 2),
    ],
)
def test_headers_and_delimiters_show_by_themselves(tmp_path: Path, text: str, rows: int) -> None:
    file = write(tmp_path, text)
    assert len(load("csv", data_dir=file, options={"test_split": 0}).train) == rows


def test_columns_may_be_named_by_numbers(tmp_path: Path) -> None:
    file = write(tmp_path, "label,0,1,2\n5,1,2,3\n4,0,9,8\n5,6,7,8\n")
    dataset = load("csv", data_dir=file, options={"target": "label", "test_split": 0})
    assert dataset.classes == ("4", "5")
    assert dataset.train.inputs.tolist() == [[1, 2, 3], [0, 9, 8], [6, 7, 8]]


def test_a_table_may_be_gzipped(tmp_path: Path) -> None:
    (tmp_path / "some.csv.gz").write_bytes(gzip.compress(WEATHER.encode()))
    assert len(load("csv", data_dir=tmp_path, options={"test_split": 0}).train) == 4


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "no rows"),
        ("x,kind\n", "a header and no rows after it"),
        ("x,kind\n1,a\n2\n", "line 3 has 1 columns, the first has 2: .*--skip-bad"),
        ("x,kind\n1,a\n,b\n", r"line 3, column 'x': the value is missing \(''\).*--missing"),
        ("x,kind\n1,a\nNA,b\n2,a\n", r"line 3, column 'x': the value is missing \('NA'\)"),
        ("1,a\n2,?\n", "line 2, column 'column 1': the value is missing"),
        ("x,price\n1,2.5\n2,3.75\n", "column 'price' holds 2 different numbers .*--task reg"),
        ("x,kind\n1,a\n2,a\n", "column 'kind' has one value alone, a"),
        ("kind\na\nb\na\n", "no column is left"),
        (
            "x,kind\n" + "".join(f"{i},{i % 30}\n" for i in range(100)),
            "column 'kind' holds 30 different whole numbers in 100 rows: say --task class",
        ),
        (
            "id,x,kind\n" + "".join(f"n{i},{i},{i % 2}\n" for i in range(1100)),
            "column 'id' has 1,100 values such as 'n0' in 1,100 rows, .*--drop 'id'",
        ),
        ('x,kind\n1,"a\n', "not a table of text"),
    ],
)
def test_tables_that_cannot_be_learnt_from(tmp_path: Path, text: str, cause: str) -> None:
    write(tmp_path, text)
    with pytest.raises(DataError, match=f"some.csv: .*(?:{cause})|some.csv: (?:{cause})"):
        check("csv", tmp_path)


@pytest.mark.parametrize(
    ("numbers", "dtype"),
    [
        (("0", "255"), torch.uint8),
        (("-1", "0.5"), torch.float32),
        (("0.1", "2"), torch.float64),
        (("1750000001", "1750000002"), torch.float64),
    ],
)
def test_rows_are_stored_in_the_smallest_type_that_holds_them(
    tmp_path: Path, numbers: tuple[str, str], dtype: torch.dtype
) -> None:
    file = write(tmp_path, f"x,sky,kind\n{numbers[0]},clear,a\n{numbers[1]},rain,b\n")
    inputs = load("csv", data_dir=file, options={"test_split": 0}).train.inputs
    assert inputs.dtype == dtype
    assert inputs.tolist() == [[float(numbers[0]), 1, 0], [float(numbers[1]), 0, 1]]


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "some.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    with pytest.raises(DataError, match=r"some.csv: not a table of text"):
        check("csv", tmp_path)
    (tmp_path / "some.csv").write_bytes(gzip.compress(WEATHER.encode())[:-9])
    with pytest.raises(DataError, match=r"some.csv: damaged gzip"):
        check("csv", tmp_path)


@pytest.mark.parametrize("option", ["target", "drop"])
@pytest.mark.parametrize("column", ["weather", "5", "-6"])
def test_columns_that_are_not_there(tmp_path: Path, option: str, column: str) -> None:
    file = write(tmp_path, WEATHER)
    with pytest.raises(
        UsageError, match=f"--{option} {column}: .* has columns day, wind, .*0 to 4"
    ):
        check("csv", file, options={option: column})


def test_the_real_iris_tables_are_the_same(real_data: Path) -> None:
    folder = real_data / "iris"
    if not folder.is_dir():
        pytest.skip("iris is not among the real data here")
    options = {"test_split": 0}
    named = load("csv", data_dir=folder / "Iris.csv", options=options | {"drop": "Id"})
    plain = load("csv", data_dir=folder / "iris.data", options=options)
    assert len(plain.train) == 150
    assert named.classes == plain.classes
    assert torch.equal(named.train.targets, plain.train.targets)
