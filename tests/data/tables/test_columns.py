"""Columns that are no inputs, and those that tell too little."""

from pathlib import Path

import pytest

from phalanx.data import check, load
from phalanx.errors import DataError, UsageError


def write(folder: Path, values: list[str], *, name: str = "it") -> Path:
    lines = [f"{value},{row % 3},{'ab'[row % 2]}" for row, value in enumerate(values)]
    path = folder / "some.csv"
    path.write_text("\n".join([f"{name},x,kind", *lines]) + "\n")
    return path


@pytest.mark.parametrize("options", [{"target": "kind"}, {"target": "2"}, {}])
@pytest.mark.parametrize("drop", ["kind", "it,kind", "-1"])
def test_the_class_cannot_be_dropped(tmp_path: Path, options: dict[str, str], drop: str) -> None:
    path = write(tmp_path, ["u", "v"] * 5)
    with pytest.raises(UsageError, match="--drop 'kind': this column has the classes"):
        check("csv", path, options=options | {"drop": drop})


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ([f"n{row}" for row in range(40)], "has 40 values such as 'n0' in 40 rows"),
        ([f"n{row % 101}" for row in range(999)], "has 101 values such as"),
        ([f"2024-{row % 12 + 1:02}-{row % 28 + 1:02}" for row in range(80)], "dates such as '2024"),
        ([f"{row + 1}.3.2024 12:00" for row in range(25)], "has 25 dates .*make numbers of them"),
    ],
)
def test_names_and_dates_are_no_categories(tmp_path: Path, values: list[str], cause: str) -> None:
    path = write(tmp_path, values)
    with pytest.raises(DataError, match=f"column 'it' {cause}" if cause[0] == "h" else cause) as no:
        check("csv", path)
    assert "--drop 'it'" in str(no.value)
    count = len(set(values))
    assert f"--most-categories {count}" in str(no.value)
    taken = load("csv", data_dir=path, options={"most_categories": count})
    assert taken.input_shape == (count + 1,)
    with pytest.raises(DataError, match="each of which would be an input"):
        check("csv", path, options={"most_categories": count - 1})
    assert load("csv", data_dir=path, options={"drop": "it"}).input_shape == (1,)


def test_categories_that_come_again_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    path = write(tmp_path, [f"n{row % 30}" for row in range(90)])
    assert load("csv", data_dir=path).notes == ()
    assert [one.getMessage() for one in caplog.records] == [
        "csv: column 'it' has 30 values, an input each"
    ]


def test_a_column_that_counts_the_rows_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, [str(row) for row in range(5, 25)], name="Id")
    (note,) = load("csv", data_dir=path).notes
    assert "column 'Id' counts the rows, from 5 to 24" in note
    assert note.endswith("--drop 'Id'")
    assert load("csv", data_dir=path, options={"drop": "Id"}).notes == ()
