"""Folders of images: a folder a class, in parts or to be parted, and those that are none."""

from pathlib import Path
from shutil import rmtree

import pytest
import torch

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data import check, load
from phalanx.data.batches import batches
from phalanx.data.prepare import prepare
from phalanx.errors import DataError, UsageError
from tests.data.formats.pictures import COLOURS, huge_png, paint, tree


@pytest.mark.parametrize(
    ("training", "test"),
    [
        *(("train", "test"), ("train", "val"), ("seg_train/seg_train", "seg_test/seg_test")),
        *(("Training", "Test"), ("TRAIN", "Testing"), ("training/training", "Valid")),
    ],
)
def test_a_folder_a_class(tmp_path: Path, training: str, test: str) -> None:
    tree(tmp_path / training)
    tree(tmp_path / test, count=1)
    check("images", tmp_path)
    dataset = load("images", data_dir=tmp_path, options={"resize": "6x8"})
    assert dataset.classes == ("blue", "green", "red")
    assert (len(dataset.train), len(dataset.test)) == (9, 3)
    assert dataset.input_shape == (3, 6, 8)
    samples = dataset.train.take(torch.arange(9))
    means = samples.inputs.mean((2, 3))
    assert samples.targets.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert torch.equal(means.argmax(1), 2 - samples.targets)
    assert means.max().item() == 1.0


def test_validation_images_test_where_there_are_no_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    tree(tmp_path / "train")
    tree(tmp_path / "Valid", count=1)
    assert len(load("images", data_dir=tmp_path).test) == 3
    assert f"no test images in {tmp_path}: Valid/ is taken to test with" in caplog.text
    caplog.clear()
    paint(tmp_path / "test" / "red" / "0.png", COLOURS["red"])
    dataset = load("images", data_dir=tmp_path)
    assert not caplog.text
    assert dataset.test.targets.tolist() == [dataset.classes.index("red")]


@pytest.mark.parametrize("name", ["train", "Test", "val"])
def test_a_class_may_be_called_as_a_part_is(tmp_path: Path, name: str) -> None:
    tree(tmp_path)
    paint(tmp_path / name / "0.png", (9, 9, 9))
    dataset = load("images", data_dir=tmp_path, options={"test_split": 0})
    assert dataset.classes == tuple(sorted((*COLOURS, name)))
    assert len(dataset.train) == 10


def test_one_tree_is_parted(tmp_path: Path) -> None:
    tree(tmp_path, count=10)
    check("images", tmp_path, options={"test_split": 0.5})
    dataset = load("images", data_dir=tmp_path, options={"test_split": 0.5, "seed": 2})
    assert (len(dataset.train), len(dataset.test)) == (15, 15)
    assert dataset.input_shape == (3, 64, 64)
    samples = dataset.test.take(torch.arange(15))
    assert torch.equal(samples.inputs.mean((2, 3)).argmax(1), 2 - samples.targets)


@pytest.mark.parametrize("keep", [0, 1, 512])
def test_images_are_the_same_kept_or_decoded_anew(tmp_path: Path, keep: int) -> None:
    tree(tmp_path)
    dataset = load("images", data_dir=tmp_path, options={"cache": keep, "test_split": 0})
    indices = torch.tensor([8, 0, 3, 8])
    first = dataset.train.take(indices).inputs
    assert torch.equal(first, dataset.train.take(indices).inputs)
    for path in tmp_path.glob("*/*.png"):
        path.unlink()
    if keep:
        assert torch.equal(first, dataset.train.take(indices).inputs)
    else:
        with pytest.raises(DataError, match=r"2.png: .*No such file"):
            dataset.train.take(indices)


def test_batches_of_images_are_decoded_ahead(tmp_path: Path) -> None:
    tree(tmp_path, count=5)
    split = load("images", data_dir=tmp_path, options={"test_split": 0, "resize": "4x4"}).train
    for batch in batches(split, batch_size=4, seed=1, epoch=0):
        samples = batch.part(0, of=2)
        assert torch.equal(samples.inputs.mean((2, 3)).argmax(1), 2 - samples.targets)


@pytest.mark.ranks(2)
def test_bad_files_are_left_out_on_all_ranks_alike(
    comm: Communicator, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = Path(comm.broadcast_object(str(tmp_path_factory.mktemp("images"))))
    if comm.rank == 0:
        tree(folder / "train")
        tree(folder / "test", count=1)
        (folder / "train" / "blue" / "0.png").write_bytes(b"")
        (folder / "train" / "red" / "2.png").write_bytes(huge_png())
    comm.barrier()
    loaded = load("images", data_dir=folder, options={"skip_bad": True, "resize": "4x4"})
    dataset = prepare(loaded, {}, comm=comm)
    assert (len(dataset.train), len(dataset.test)) == (7, 3)
    assert dataset.train.targets.tolist() == [0, 0, 1, 1, 1, 2, 2]
    samples = dataset.train.take(torch.arange(7))
    assert torch.equal(samples.inputs.mean((2, 3)).argmax(1), 2 - samples.targets)


def test_bad_files_of_one_tree_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tree(tmp_path)
    (tmp_path / "red" / "0.png").write_bytes(b"text")
    options = {"skip_bad": True, "resize": "4x4", "test_split": 0}
    dataset = prepare(
        load("images", data_dir=tmp_path, options=options), options, comm=SingleCommunicator()
    )
    assert len(dataset.train) == len(dataset.test) == 8
    assert dataset.train.transforms == ()
    (record,) = caplog.records
    assert "red/0.png: not an image" in record.getMessage()
    for path in tmp_path.glob("*/*.png"):
        path.write_bytes(b"text")
    loaded = load("images", data_dir=tmp_path, options=options | {"cache": 0})
    with pytest.raises(DataError, match="none of the samples can be read"):
        prepare(loaded, options, comm=SingleCommunicator())


def test_folders_that_are_no_data_set(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="needs a folder for each class, there is none"):
        check("images", tmp_path)
    paint(tmp_path / "only" / "0.png", (1, 2, 3))
    with pytest.raises(DataError, match="there is only only/"):
        check("images", tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").touch()
    with pytest.raises(DataError, match="empty has no images in it"):
        check("images", tmp_path)


def test_test_classes_must_be_known(tmp_path: Path) -> None:
    tree(tmp_path / "train")
    tree(tmp_path / "test")
    with pytest.raises(UsageError, match="test images of its own: leave out --test-split"):
        check("images", tmp_path, options={"test_split": 0.1})
    paint(tmp_path / "test" / "purple" / "0.png", (200, 0, 200))
    with pytest.raises(DataError, match="purple is no class of the training images"):
        check("images", tmp_path)
    rmtree(tmp_path / "test")
    paint(tmp_path / "test" / "0.png", (200, 0, 200))
    with pytest.raises(DataError, match="test has no images in a folder of their class"):
        check("images", tmp_path)


def test_a_test_part_alone_is_refused(tmp_path: Path) -> None:
    tree(tmp_path / "test")
    with pytest.raises(DataError, match="has test/, but none of train, training, seg_train with"):
        check("images", tmp_path)


def test_without_pillow_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path)
    monkeypatch.setattr("phalanx.data.packages.find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"Pillow, .*: pip install 'phalanx\[data\]'"):
        check("images", tmp_path)


def test_the_real_folder_of_scenes(real_data: Path) -> None:
    folder = real_data / "intel"
    if not folder.is_dir():
        pytest.skip("intel is not among the real data here")
    dataset = load("images", data_dir=folder, options={"resize": "16x16"})
    assert dataset.classes == ("buildings", "forest", "glacier", "mountain", "sea", "street")
    assert len(dataset.train) > len(dataset.test) > 0
    assert dataset.train.take(torch.tensor([0, 1])).inputs.shape == (2, 3, 16, 16)


def test_what_is_no_image_is_found_before_the_training(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    prepare(
        load("images", data_dir=folder, options={"resize": "4x4"}), {}, comm=SingleCommunicator()
    )
    for path in sorted(folder.rglob("*.png"))[:2]:
        path.write_bytes(b"no image")
    dataset = load("images", data_dir=folder, options={"resize": "4x4"})
    with pytest.raises(DataError, match=r"png: not an image .*: .*by --skip-bad"):
        prepare(dataset, {}, comm=SingleCommunicator())


def test_an_image_that_ends_early_names_the_way_out(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    path = next(folder.rglob("*.png"))
    path.write_bytes(path.read_bytes()[:48])
    dataset = load("images", data_dir=folder, options={"resize": "4x4", "test_split": 0})
    prepared = prepare(dataset, {}, comm=SingleCommunicator())
    with pytest.raises(DataError, match=r"png: not an image .*: .*by --skip-bad"):
        prepared.train.take(torch.arange(len(prepared.train)))
