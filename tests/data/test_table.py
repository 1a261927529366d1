from pathlib import Path

import pytest

from phalanx.data.table import Table, read_table
from phalanx.errors import DataError


def table_of(folder: Path, text: str, *, header: bool | None = None) -> Table:
    (folder / "some.csv").write_text(text)
    return read_table(folder / "some.csv", header=header)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("label,0,1\n5,1,2\n4,3,4\n", ["label", "0", "1"]),
        ("label,0,1\n5,1,2\n?,3,4\n-,3,4\n", ["label", "0", "1"]),
        # As pandas writes columns that have no names, with words or an index beside them.
        ("0,1,2,kind\n7,8,9,a\n1,2,3,b\n", ["0", "1", "2", "kind"]),
        (",0,1,2\n0,7,8,9\n1,1,2,3\n", ["", "0", "1", "2"]),
    ],
)
def test_headers_with_numbers_in_them(tmp_path: Path, text: str, names: list[str]) -> None:
    table = table_of(tmp_path, text)
    assert [column.name for column in table.columns] == names


@pytest.mark.parametrize(
    "text",
    [
        "0,1,2\n7,8,9\n",
        "0,1,2,a\n7,8,9,a\n1,2,3,b\n",
        "0,1,2,a\n",
        "0,1,a\n1,0,b\n",
        "?,0\n1,2\n3,4\n",
        "inf,0\n1,2\n3,4\n",
        "1.5 kg,0\n1,2\n3,4\n",
        "a,1\n?,2\n",
    ],
)
def test_rows_that_are_no_header(tmp_path: Path, text: str) -> None:
    table = table_of(tmp_path, text)
    assert table.columns[0].name == "column 0"
    assert table.lines == tuple(range(1, text.count("\n") + 1))


def test_a_header_can_be_known(tmp_path: Path) -> None:
    assert table_of(tmp_path, "0,1\n2,3\n", header=True).columns[1].name == "1"
    assert table_of(tmp_path, "x,y\na,b\n", header=False).lines == (1, 2)
    with pytest.raises(DataError, match=r"some.csv: a header and no rows after it"):
        table_of(tmp_path, "0,1\n", header=True)
