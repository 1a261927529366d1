"""A user's own samples, read as those of the training were."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from phalanx import data
from phalanx.comm.single import SingleCommunicator
from phalanx.data.prepare import prepare
from phalanx.data.split import Dataset, Split
from phalanx.errors import DataError, UsageError
from phalanx.inference.input_files import check_input, check_reading
from phalanx.inference.user_samples import read_samples
from phalanx.inference.user_table import Reading
from phalanx.settings.table import Settings

TABLE = """colour,size,weight,kind
red,1,2.5,a
green,2,0.5,b
red,3,1.5,a
blue,4,3.5,b
"""


def loaded(settings: Settings) -> Dataset:
    options = settings.data_options
    found = data.load(settings.dataset, data_dir=settings.data_dir, options=options)
    return prepare(found, options, comm=SingleCommunicator())


def inputs(split: Split) -> torch.Tensor:
    taken: torch.Tensor = split.take(torch.arange(len(split))).inputs
    return taken


def table_settings(folder: Path, text: str = TABLE, **more: Any) -> Settings:
    path = folder / "training.csv"
    path.write_text(text)
    return Settings(dataset="csv", data_dir=path, test_split=0.0, **more)


def read(path: Path, settings: Settings) -> Split:
    trained = loaded(settings)
    return read_samples(path, like=trained.test, settings=settings, form=trained.table).split


def test_a_table_is_encoded_and_normalised_as_in_training(tmp_path: Path) -> None:
    settings = table_settings(tmp_path, normalise=True)
    new = tmp_path / "new.csv"
    new.write_text("weight,remark,colour,size\n3.5,x,blue,4\n2.5,y,red,1\n")
    expected = inputs(loaded(settings).test)
    assert torch.equal(inputs(read(new, settings)), expected[[3, 0]])


def test_a_table_without_a_header_is_read_by_place(tmp_path: Path) -> None:
    settings = table_settings(tmp_path, "red,1,a\nblue,2,b\ngreen,3,a\n", target="2", drop="0")
    complete, bare = tmp_path / "complete.csv", tmp_path / "bare.csv"
    complete.write_text("blue,7,a\nred,8,b\n")
    bare.write_text("7\n8\n")
    for path in (complete, bare):
        assert inputs(read(path, settings)).tolist() == [[7.0], [8.0]]
    bare.write_text("7,8,9,1\n1,2,3,4\n")
    with pytest.raises(DataError, match=r"has 4 columns; the training's table.*had 3.*reads 1"):
        read(bare, settings)


def test_what_the_model_does_not_read_may_be_missing(tmp_path: Path) -> None:
    settings = table_settings(tmp_path, drop="size")
    new = tmp_path / "new.csv"
    new.write_text("colour,size,weight,kind\nblue,,3.5,\nred,NA,2.5,\n")
    expected = inputs(loaded(settings).test)
    assert torch.equal(inputs(read(new, settings)), expected[[3, 0]])


def test_columns_may_be_named_by_numbers(tmp_path: Path) -> None:
    settings = table_settings(tmp_path, "kind,0,1\n1,2,3\n0,4,5\n", target="kind")
    new = tmp_path / "new.csv"
    for text in ("1,0\n9,8\n", "kind,1,0\n,9,8\n"):
        new.write_text(text)
        assert inputs(read(new, settings)).tolist() == [[8, 9]]


def test_words_without_a_header_are_all_rows(tmp_path: Path) -> None:
    settings = table_settings(tmp_path, "red,big,a\nblue,big,b\nred,small,b\n")
    new = tmp_path / "new.csv"
    new.write_text("blue,small\n")
    assert inputs(read(new, settings)).tolist() == [[1, 0, 0, 1]]
    new.write_text("blue,small\nred,big\n")
    assert inputs(read(new, settings)).tolist() == [[1, 0, 0, 1], [0, 1, 1, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour,size\nred,1\n", "lacks columns .*: weight$"),
        (
            "colour,size,weight\nred,big,2\n",
            "line 2, column 'size': 'big' is not a number: .*--skip-bad",
        ),
        ("colour,size,weight\nred,,2\n", r"line 2, column 'size': the value is missing \(''\)"),
        ("colour,size,weight\n?,1,2\n", r"line 2, column 'colour': the value is missing \('\?'\)"),
        ("colour,size,weight\n", "a header and no rows"),
    ],
)
def test_a_table_that_does_not_fit(tmp_path: Path, text: str, message: str) -> None:
    settings = table_settings(tmp_path)
    new = tmp_path / "new.csv"
    new.write_text(text)
    with pytest.raises(DataError, match=message):
        read(new, settings)


def test_arrays_and_tables_of_numbers_for_any_data_set(tmp_path: Path) -> None:
    settings = Settings(dataset="digits", normalise=True)
    test = loaded(settings).test
    stored = test.inputs[:3].numpy()
    np.save(tmp_path / "new.npy", stored)
    np.savez(tmp_path / "new.npz", X=stored, y=[0, 0, 0])
    np.savez(tmp_path / "train.npz", x_train=stored)
    np.savez(tmp_path / "both.npz", X_train=stored[:0], X_test=stored)
    np.savetxt(tmp_path / "new.csv", stored.reshape(3, -1), delimiter=",")
    expected = inputs(test)[:3]
    for name in ("new.npy", "new.npz", "new.csv", "train.npz", "both.npz"):
        assert torch.equal(inputs(read(tmp_path / name, settings)), expected), name


def test_arrays_that_do_not_fit(tmp_path: Path) -> None:
    settings = Settings(dataset="iris")
    np.save(tmp_path / "wide.npy", np.zeros((2, 5)))
    with pytest.raises(DataError, match=r"has shape \(2, 5\), the model takes \(n, 4\)"):
        read(tmp_path / "wide.npy", settings)
    np.savez(tmp_path / "other.npz", z=np.zeros((2, 4)))
    with pytest.raises(DataError, match="holds z; needed are inputs, x, x_test, x_train or X"):
        read(tmp_path / "other.npz", settings)
    np.savez(tmp_path / "other.npz", x=np.full((2, 4), np.nan))
    with pytest.raises(DataError, match="only finite numbers"):
        read(tmp_path / "other.npz", settings)
    (tmp_path / "not.npy").write_text("no")
    with pytest.raises(DataError, match=r"not a \.npy file"):
        read(tmp_path / "not.npy", settings)


def picture(path: Path, colour: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (12, 10), (colour, 255 - colour, 40)).save(path)


def test_images_are_resized_as_in_training(tmp_path: Path) -> None:
    for index, name in enumerate(("cats/1.png", "cats/2.png", "dogs/1.png", "dogs/2.png")):
        picture(tmp_path / "training" / name, 60 * index)
    settings = Settings(
        dataset="images", data_dir=tmp_path / "training", resize="8x8", test_split=0.0
    )
    test = loaded(settings).test
    new = tmp_path / "new"
    picture(new / "b.png", 60)
    picture(new / "a" / "z.png", 180)
    (new / "notes.txt").write_text("not an image")
    samples = read_samples(new, like=test, settings=settings, classes=("cats", "dogs"))
    assert (samples.beside, samples.labels) == ({"file": ["b.png", "a/z.png"]}, None)
    assert torch.equal(inputs(samples.split), inputs(test)[[1, 3]])
    one = read_samples(new / "b.png", like=test, settings=settings)
    assert one.beside == {"file": ["b.png"]}
    assert torch.equal(inputs(one.split), inputs(test)[[1]])
    training = tmp_path / "training"
    known = read_samples(training, like=test, settings=settings, classes=("cats", "dogs"))
    assert known.labels == ["cats", "cats", "dogs", "dogs"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no images in it"):
        read_samples(tmp_path / "empty", like=test, settings=settings)
    with pytest.raises(UsageError, match="this one was trained on digits"):
        read_samples(new, like=test, settings=Settings(dataset="digits"))


def test_what_a_name_tells(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        check_input(tmp_path / "missing.npy")
    (tmp_path / "samples.doc").write_text("")
    with pytest.raises(UsageError, match=r"takes \.npy, \.npz or \.csv"):
        check_input(tmp_path / "samples.doc")


def test_images_with_the_channels_last_are_taken_as_in_training(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (6, 9, 7, 3), dtype=np.uint8)
    np.savez(tmp_path / "set.npz", x_train=pixels, y_train=np.arange(6) % 2)
    np.save(tmp_path / "new.npy", pixels[:2])
    settings = Settings(dataset="npz", data_dir=tmp_path / "set.npz", test_split=0.0)
    found = inputs(read(tmp_path / "new.npy", settings))
    assert found.shape == (2, 3, 9, 7)
    assert torch.equal(found, inputs(loaded(settings).test)[:2])


@pytest.mark.parametrize("dtype", ["u1", "f4"])
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_grey_images_are_taken_without_a_channel(tmp_path: Path, dtype: str, suffix: str) -> None:
    """As in training, and with numbers of other types, and small ones too."""
    settings = Settings(dataset="digits")
    test = loaded(settings).test
    pixels = test.inputs[:3].numpy().astype(dtype)
    np.savez(tmp_path / "new.npz", X=pixels[:, 0])
    np.save(tmp_path / "new.npy", pixels[:, 0])
    found = inputs(read(tmp_path / f"new{suffix}", settings))
    assert torch.equal(found, inputs(test)[:3])
    np.save(tmp_path / "last.npy", np.moveaxis(pixels, 1, 3))
    assert torch.equal(inputs(read(tmp_path / "last.npy", settings)), found)


def test_what_is_known_about_rows_stands_beside_them(tmp_path: Path) -> None:
    settings = table_settings(tmp_path)
    trained = loaded(settings)
    new = tmp_path / "new.csv"
    new.write_text(
        "who,colour,size,weight,kind\nann,red,1,2,b\nbob,pink,2,2,c\ncat,red,?,2,a\n"
        "dan,red,1\neve,lime,3,2,\n"
    )
    reading = Reading(id_column="who", skip_bad=True)
    samples = read_samples(
        new, like=trained.test, settings=settings, form=trained.table, reading=reading
    )
    assert (list(samples.places), samples.count, len(samples.split)) == ([0, 1, 4], 5, 3)
    assert samples.beside == {"who": ["ann", "bob", "cat", "", "eve"]}
    assert samples.labels == ["b", "c", "a", "", ""]
    assert inputs(samples.split)[:, :3].tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 0]]
    left_out, strangers = samples.notes
    assert left_out.startswith("left out: 2 rows of 5, the first: ")
    assert "column 'colour': 2 rows of 3 with values" in strangers
    assert strangers.endswith(": pink, lime")


def test_a_table_of_numbers_may_name_its_rows(tmp_path: Path) -> None:
    settings = Settings(dataset="iris")
    trained = loaded(settings)
    (tmp_path / "new.csv").write_text("id,a,b,c,d\nu,1,2,3,4\nv,5,6,7,x\nw,1,1,1,1\n")
    reading = Reading(id_column="id", skip_bad=True)
    samples = read_samples(
        tmp_path / "new.csv", like=trained.test, settings=settings, reading=reading
    )
    assert samples.beside == {"id": ["u", "v", "w"]}
    assert samples.places == [0, 2]


def test_arrays_may_say_their_classes(tmp_path: Path) -> None:
    settings = Settings(dataset="iris")
    test = loaded(settings).test
    rows = np.ones((2, 4))
    for y, labels in (([1, 2], ["1", "2"]), (["rose", "iris"], ["rose", "iris"]), ([1], None)):
        np.savez(tmp_path / "new.npz", X=rows, y=np.array(y))
        samples = read_samples(tmp_path / "new.npz", like=test, settings=settings)
        assert samples.labels == labels
        assert bool(samples.notes) == (labels is None)


def test_fractions_where_bytes_were_trained_on_are_told(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (6, 9, 7), dtype=np.uint8)
    np.savez(tmp_path / "set.npz", x_train=pixels, y_train=np.arange(6) % 2)
    settings = Settings(dataset="npz", data_dir=tmp_path / "set.npz", test_split=0.0)
    test = loaded(settings).test
    for scale, told in ((255, True), (1, False)):
        np.save(tmp_path / "new.npy", (pixels / scale).astype("f4"))
        samples = read_samples(tmp_path / "new.npy", like=test, settings=settings)
        assert ["bytes from 0 to 255" in one for one in samples.notes] == [True] * told


@pytest.mark.parametrize(
    ("name", "given", "cause"),
    [
        (None, {"id_column": "a"}, "--id names a column of a table"),
        ("new.npy", {"encoding": "cp1252"}, "--encoding is about tables"),
        ("new.npz", {"skip_bad": True}, "--skip-bad is about tables and images"),
        ("new.csv", {"encoding": "utf-9"}, "--encoding utf-9: there is no such"),
    ],
)
def test_choices_that_samples_do_not_know(
    name: str | None, given: dict[str, Any], cause: str
) -> None:
    choices = {"id_column": None, "encoding": None, "skip_bad": False} | given
    with pytest.raises(UsageError, match=cause):
        check_reading(None if name is None else Path(name), **choices)
