from pathlib import Path

import pytest

from phalanx.data.tables.table import Table, read_table
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


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,a,kind\n1,2,x\n3,4,y\n", "'a'"),
        ("b;a;b;a;kind\n1;2;3;4;x\n", "'b', 'a'"),
        ("a,,\n1,2,x\n", "''"),
    ],
)
def test_columns_of_the_same_name_are_refused(tmp_path: Path, text: str, names: str) -> None:
    with pytest.raises(DataError, match=f"some.csv: several columns are called {names}: give each"):
        table_of(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("1,5;2,3;x\n1,6;2,4;y\n", ["1,5", "2,3", "x"]),
        ("1,5;x\n1,6;y\n", ["1,5", "x"]),
        ("a;b;kind\n1,5;2,3;x\n", ["1,5", "2,3", "x"]),
        ("1 234;2 345;x\n3 456;4 567;y\n", ["1 234", "2 345", "x"]),
        ('"Height, cm, of it";"Width, cm";kind\n1;2;x\n3;4;y\n', ["1", "2", "x"]),
        ("Height, cm, of it;Width, cm;kind\n1;2;x\n3;4;y\n", ["1", "2", "x"]),
        ('1;"a;b, c"\n2;"d, e"\n', ["1", "a;b, c"]),
        ("1|2,5|x\n3|4,5|y\n", ["1", "2,5", "x"]),
        ("  5.1   3.5 x \n 4.9\t3.0  y\n", ["5.1", "3.5", "x"]),
        ("1\t2\tx\n3\t\t4\ty\n", ["1", "2", "x"]),
        ("1\t\tx\n3\t4\ty\n", ["1", "", "x"]),
        ('18.0  8 307.\t"a fine car"\n15.0 8  350.\t"b"\n', ["18.0", "8", "307.", "a fine car"]),
        ("New York, 1, a\nLos Angeles, 2, b\n", ["New York", "1", "a"]),
        ("Jan 5 2024,a\nJan 6 2024,b\n", ["Jan 5 2024", "a"]),
        ("New York\tx\nLos Angeles\ty\n", ["New York", "x"]),
        ("New York\nLos Angeles\n", ["New York"]),
        ('1,"two\nlines, and a half",x\n2,"one",y\n', ["1", "two\nlines, and a half", "x"]),
    ],
)
def test_the_delimiter_is_what_makes_rows_alike(
    tmp_path: Path, text: str, first: list[str]
) -> None:
    table = table_of(tmp_path, text, header="kind" in text)
    assert [column.values[0] for column in table.columns] == first


def test_a_quoted_cell_may_go_on_where_the_rows_looked_at_end(tmp_path: Path) -> None:
    text = "".join(f"{number},x\n" for number in range(99)) + '99,"two\nlines"\n'
    assert table_of(tmp_path, text).columns[1].values[-1] == "two\nlines"


@pytest.mark.parametrize("blank", ["", " ", ";;", " ; ;"])
def test_blank_rows_are_left_out_and_lines_counted(tmp_path: Path, blank: str) -> None:
    table = table_of(tmp_path, f"{blank}\na;b;kind\n{blank}\n1;2;x\n3;4;y\n{blank}\n")
    assert [column.name for column in table.columns] == ["a", "b", "kind"]
    assert table.lines == (4, 5)
    with pytest.raises(DataError, match="line 5 has 2 columns, the first has 3"):
        table_of(tmp_path, f"{blank}\na;b;kind\n{blank}\n1;2;x\n3;4\n5;6;y\n")


def test_numbers_in_the_way_of_other_countries_are_no_names(tmp_path: Path) -> None:
    assert table_of(tmp_path, "1,5;x\n2,5;y\n").lines == (1, 2)
