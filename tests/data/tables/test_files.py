"""Tables with test rows of their own."""

from pathlib import Path

import pytest

from phalanx.data import check, load
from phalanx.data.location import is_same_data
from phalanx.errors import DataError, UsageError

TRAIN = "colour,size,kind\nred,1,x\nblue,2,y\nred,3,y\n"


def tables(folder: Path, test: str) -> Path:
    (folder / "train.csv").write_text(TRAIN)
    (folder / "test.csv").write_text(test)
    (folder / "sample_submission.csv").write_text("id,kind\n")
    return folder


@pytest.mark.parametrize("name", ["", "train.csv"])
def test_a_folder_may_have_a_table_to_test_with(tmp_path: Path, name: str) -> None:
    path = tables(tmp_path, "kind,size,colour\ny,7,red\n") / name
    check("csv", path)
    dataset = load("csv", data_dir=path)
    assert dataset.train.inputs.tolist() == [[0, 1, 1], [1, 0, 2], [0, 1, 3]]
    assert dataset.test.inputs.tolist() == [[0, 1, 7]]
    assert dataset.test.targets.tolist() == [1]


def test_a_file_and_a_split_are_what_was_asked_for(tmp_path: Path) -> None:
    tables(tmp_path, "not,a table\n")
    options = {"test_split": 0.0}
    check("csv", tmp_path / "train.csv", options=options)
    assert len(load("csv", data_dir=tmp_path / "train.csv", options=options).test) == 3
    with pytest.raises(UsageError, match=r"test rows of its own, in test.csv: leave out"):
        check("csv", tmp_path, options=options)


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("colour,size,kind\nred,1,z\n", "test.csv: line 2, column 'kind': 'z' is no class of the"),
        ("colour,size\nred,1\n", "test.csv: lacks column 'kind', which has the classes: add it"),
        ("colour,size,kind\nred,,x\n", "test.csv: line 2, column 'size': the value is missing"),
    ],
)
def test_test_rows_that_do_not_fit(tmp_path: Path, test: str, message: str) -> None:
    tables(tmp_path, test)
    with pytest.raises(DataError, match=message):
        load("csv", data_dir=tmp_path)
    with pytest.raises(DataError, match=message):  # before any rank starts
        check("csv", tmp_path)


def test_test_rows_may_have_values_that_are_new(tmp_path: Path) -> None:
    tables(tmp_path, "colour,size,kind\nred,1,x\npink,1,x\nlime,2,y\n")
    dataset = load("csv", data_dir=tmp_path)
    (note,) = dataset.notes
    assert "test.csv: column 'colour': 2 rows of 3 with values that the training's" in note
    assert note.endswith(": pink, lime")
    assert dataset.test.inputs[1:, :-1].sum() == 0


def test_the_same_data(tmp_path: Path) -> None:
    tables(tmp_path, "")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.csv").write_text("")
    (tmp_path / "one" / "notes.txt").write_text("")
    assert is_same_data(tmp_path / "one", tmp_path / "one" / "a.csv")
    assert is_same_data(tmp_path / "one" / "a.csv", tmp_path / "one" / ".." / "one")
    assert not is_same_data(tmp_path, tmp_path / "test.csv")
    assert not is_same_data(tmp_path, tmp_path / "one")
    assert not is_same_data(tmp_path / "one" / "a.csv", tmp_path / "one" / "b.csv")
