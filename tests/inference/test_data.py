"""Samples for a trained model are read by what its run says, not by what is in them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from phalanx import data
from phalanx.comm.single import SingleCommunicator
from phalanx.data.prepare import prepare
from phalanx.data.split import Dataset, Split
from phalanx.data.transforms import Draw, Flip, Resize, Transform
from phalanx.errors import DataError, RunError
from phalanx.inference.data import load_like_training, pattern
from phalanx.inference.user_samples import read_samples
from phalanx.runs.inputs import in_words, input_values
from phalanx.runs.record import Record, read_record
from phalanx.settings.table import Settings

TABLE = """colour,size,kind
red,1,x
green,2,y
blue,4,z
red,8,y
"""


def trained(settings: Settings, run: Path) -> tuple[Dataset, Record]:
    """A data set as a training has it, and what that leaves in its run."""
    options = settings.data_options
    loaded = data.load(settings.dataset, data_dir=settings.data_dir, options=options)
    dataset = prepare(loaded, options, comm=SingleCommunicator())
    values = input_values(
        dataset.test,
        stored_shape=loaded.train.stored_shape,
        options=options,
        table=dataset.table,
    )
    run.mkdir()
    result = {
        "classes": dataset.classes,
        "input_shape": dataset.input_shape,
        "inputs": values,
        "data": None if settings.data_dir is None else str(settings.data_dir),
    }
    (run / "result.json").write_text(json.dumps(result))
    return dataset, read_record(run)


def again(settings: Settings, recorded: Record, path: Path | None) -> Dataset:
    settings = Settings(
        **{**settings.for_json(), "data_dir": path}  # as `evaluate --data-dir` has it
    )
    return load_like_training(settings, recorded, SingleCommunicator(), torch.float32)


def inputs(split: Split) -> list[Any]:
    taken: list[Any] = split.take(torch.arange(len(split))).inputs.tolist()
    return taken


def table(folder: Path, text: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_fewer_categories_and_classes_keep_their_places(tmp_path: Path) -> None:
    settings = Settings(dataset="csv", data_dir=table(tmp_path, TABLE), test_split=0.0)
    _, recorded = trained(settings, tmp_path / "run")
    other = table(tmp_path, "kind,remark,size,colour\nz,,3,red\nz,?,5,green\n", "other.csv")
    found = again(settings, recorded, other)
    assert found.classes == ("x", "y", "z")
    assert found.test.targets.tolist() == [2, 2]
    assert inputs(found.test) == [[0, 0, 1, 3], [0, 1, 0, 5]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour,size,kind\nred,1,p\nred,2,q\n", "'p' is no class .*, nor are q; those have x, y"),
        ("colour,size,kind\nred,big,x\n", "line 2, column 'size': 'big' is not a number"),
        ("colour,size\nred,1\n", "lacks column 'kind', which has the classes"),
    ],
)
def test_what_the_model_does_not_know_is_refused(tmp_path: Path, text: str, message: str) -> None:
    settings = Settings(dataset="csv", data_dir=table(tmp_path, TABLE), test_split=0.0)
    _, recorded = trained(settings, tmp_path / "run")
    with pytest.raises(DataError, match=message):
        again(settings, recorded, table(tmp_path, text, "other.csv"))


def test_classes_that_are_numbers_may_be_written_in_other_ways(tmp_path: Path) -> None:
    path = table(tmp_path, "1,3\n2,4\n3,10\n")
    settings = Settings(dataset="csv", data_dir=path, test_split=0.0)
    _, recorded = trained(settings, tmp_path / "run")
    found = again(settings, recorded, table(tmp_path, "1,10.0\n2,4\n", "other.csv"))
    assert (found.classes, found.test.targets.tolist()) == (("3", "4", "10"), [2, 1])


def test_the_normalisation_is_that_of_the_training(tmp_path: Path) -> None:
    path = table(tmp_path, TABLE)
    settings = Settings(dataset="csv", data_dir=path, test_split=0.0, normalise=True)
    dataset, recorded = trained(settings, tmp_path / "run")
    expected = inputs(dataset.test)
    path.write_text(TABLE + "blue,1000,z\n")
    assert inputs(again(settings, recorded, path).test)[:4] == expected
    path.unlink()
    new = table(tmp_path, "size,colour\n1,red\n", "new.csv")
    own = read_samples(new, like=pattern(recorded), settings=settings, form=recorded.table)
    assert inputs(own.split) == expected[:1]


def test_arrays_are_resized_pooled_and_scaled_as_in_training(tmp_path: Path) -> None:
    settings = Settings(dataset="digits", resize="6x6", pool="3x3", normalise=True)
    dataset, recorded = trained(settings, tmp_path / "run")
    stored = data.load("digits").test.inputs[:4].numpy()
    np.save(tmp_path / "new.npy", stored)
    own = read_samples(tmp_path / "new.npy", like=pattern(recorded), settings=settings)
    assert own.split.input_shape == dataset.input_shape == (1, 3, 3)
    every = torch.arange(4)
    torch.testing.assert_close(own.split.take(every).inputs, dataset.test.take(every).inputs)
    assert recorded.inputs is not None
    assert in_words(recorded.inputs).startswith(
        "stored values resized to 6x6 pooled to 3x3 times 0.0625 less "
    )


def test_arrays_with_fewer_classes_or_more(tmp_path: Path) -> None:
    def arrays(name: str, labels: list[int], width: int = 2) -> Path:
        path = tmp_path / name
        np.savez(path, x=np.zeros((len(labels), width)), y=labels)
        return path

    settings = Settings(dataset="npz", data_dir=arrays("a.npz", [0, 1, 2, 1]), test_split=0.0)
    _, recorded = trained(settings, tmp_path / "run")
    fewer = again(settings, recorded, arrays("b.npz", [0, 1]))
    assert (fewer.classes, fewer.test.targets.tolist()) == (("0", "1", "2"), [0, 1])
    with pytest.raises(RunError, match=r"trained on the classes 0, 1, 2, and .* others: 4"):
        again(settings, recorded, arrays("c.npz", [0, 4]))
    with pytest.raises(DataError, match=r"a sample has the shape 3, and the model .* takes 2"):
        again(settings, recorded, arrays("d.npz", [0, 1], width=3))


def test_folders_of_images_in_another_order(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for folder, names in (("a", ("ant", "bee", "cow")), ("b", ("bee", "cow"))):
        for name in names:
            (tmp_path / folder / name).mkdir(parents=True)
            image.new("RGB", (4, 4)).save(tmp_path / folder / name / "1.png")
    settings = Settings(dataset="images", data_dir=tmp_path / "a", resize="4x4", test_split=0.0)
    _, recorded = trained(settings, tmp_path / "run")
    found = again(settings, recorded, tmp_path / "b")
    assert (found.classes, found.test.targets.tolist()) == (("ant", "bee", "cow"), [1, 2])


def test_training_images_are_not_read_to_test(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    image = pytest.importorskip("PIL.Image")
    for name in ("train/a/1", "train/a/2", "train/b/1", "test/a/1", "test/b/1"):
        path = tmp_path / "set" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.new("RGB", (4, 4), (len(name), 9, 9)).save(path)
    settings = Settings(
        dataset="images", data_dir=tmp_path / "set", resize="4x4", skip_bad=True, normalise=True
    )
    dataset, recorded = trained(settings, tmp_path / "run")
    (tmp_path / "set" / "train" / "a" / "1.png").write_bytes(b"damaged")
    found = again(settings, recorded, tmp_path / "set")
    assert inputs(found.test) == inputs(dataset.test)
    assert not caplog.records


def test_what_a_model_takes_is_told_column_by_column(tmp_path: Path) -> None:
    settings = Settings(dataset="csv", data_dir=table(tmp_path, TABLE), test_split=0.0)
    _, recorded = trained(settings, tmp_path / "run")
    assert recorded.inputs is not None
    assert recorded.inputs["table"]["columns"] == [
        {
            "name": "colour",
            "place": 0,
            "kind": "categories",
            "categories": ["blue", "green", "red"],
        },
        {"name": "size", "place": 1, "kind": "numbers"},
    ]
    assert in_words(recorded.inputs) == "stored values; columns: colour = blue | green | red, size"


class Doubled(Transform):
    """A step of a user's own."""

    def apply(self, inputs: Tensor, indices: Tensor, draw: Draw | None) -> Tensor:
        return inputs * 2


@pytest.mark.parametrize(
    ("step", "named"), [(Doubled(), "Doubled"), (Resize(2, 2), "one that changes their shape")]
)
def test_steps_of_ones_own_are_refused_for_samples_from_elsewhere(
    tmp_path: Path, step: Transform, named: str
) -> None:
    split = Split(torch.zeros(3, 1, 4, 4), torch.arange(3), transforms=[step, Flip()])
    values = input_values(split)
    shape = split.input_shape
    recorded = Record(tmp_path, ("a", "b", "c"), shape, json.loads(json.dumps(values)))
    with pytest.raises(RunError, match=rf"has steps of its own \({named}\)"):
        pattern(recorded)


def test_runs_that_say_less(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    nothing = read_record(tmp_path / "run")
    assert nothing == Record(tmp_path / "run")
    with pytest.raises(RunError, match=r"does not say what samples .*: train it again"):
        pattern(nothing)
    settings = Settings(dataset="iris")
    assert (
        len(load_like_training(settings, nothing, SingleCommunicator(), torch.float32).test) == 30
    )
    (tmp_path / "run" / "result.json").write_text('{"classes": ["a"], "inputs": {"table": {}}}')
    with pytest.raises(RunError, match="inputs: table: lacks 'width': the file is damaged"):
        read_record(tmp_path / "run")
