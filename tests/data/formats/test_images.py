import struct
import zlib
from pathlib import Path
from shutil import rmtree

import numpy as np
import pytest
import torch

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data import check, load
from phalanx.data.arrays import Array
from phalanx.data.batches import batches
from phalanx.data.prepare import prepare
from phalanx.errors import DataError, UsageError

Image = pytest.importorskip("PIL.Image")
decode = pytest.importorskip("phalanx.data.formats.image_files").decode

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}


def paint(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (20, 10)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


def tree(root: Path, count: int = 3) -> Path:
    """A folder a colour; the sizes of images differ."""
    for name, colour in COLOURS.items():
        for number in range(count):
            paint(root / name / f"{number}.png", colour, (10 + number, 30 - number))
    return root


def huge_png() -> bytes:
    """A small file that claims to be an image of 2.5 thousand million pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    header = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b""))


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


def test_any_kind_of_image_comes_in_colour(tmp_path: Path) -> None:
    tree(tmp_path)
    folder = tmp_path / "grey"
    folder.mkdir()
    Image.new("L", (5, 5), 51).save(folder / "0-grey.png")
    Image.fromarray(np.full((5, 5), 51 << 8, np.uint16)).save(folder / "1-sixteen.png")
    palette = Image.new("P", (5, 5), 0)
    palette.putpalette([51, 51, 51])
    palette.save(folder / "2-palette.png", transparency=bytes([9]))
    Image.new("1", (5, 5), 1).save(folder / "3-bit.bmp")
    Image.new("RGB", (500, 400), (51, 51, 51)).save(folder / "4-large.jpg", quality=95)
    dataset = load("images", data_dir=tmp_path, options={"test_split": 0, "resize": "4x4"})
    grey = (dataset.train.targets == dataset.classes.index("grey")).nonzero().flatten()
    means = dataset.train.take(grey).inputs.mean((1, 2, 3)) * 255
    assert [round(mean) for mean in means.tolist()] == [51, 51, 51, 255, 51]


def decoded(path: Path, *, width: int) -> list[int]:
    """The one row of an image, which is grey."""
    image = decode(str(path), (1, width))
    assert (image == image[0]).all()
    row: list[int] = image[0, 0].tolist()
    return row


def test_more_than_eight_bits_a_pixel_are_scaled(tmp_path: Path) -> None:
    (tmp_path / "sixteen.pgm").write_bytes(
        b"P5 4 1 65535\n" + np.array([0, 51 << 8, 128 << 8, 65535], ">u2").tobytes()
    )
    assert decoded(tmp_path / "sixteen.pgm", width=4) == [0, 51, 128, 255]
    (tmp_path / "twelve.pgm").write_bytes(
        b"P5 3 1 4095\n" + np.array([0, 2048, 4095], ">u2").tobytes()
    )
    assert decoded(tmp_path / "twelve.pgm", width=3) == [0, 128, 255]
    Image.fromarray(np.array([[0, 0.2, 1]], np.float32)).save(tmp_path / "fractions.tif")
    assert decoded(tmp_path / "fractions.tif", width=3) == [0, 51, 255]


@pytest.mark.parametrize(
    ("pixels", "cause"),
    [
        (np.array([[0, 300]], np.int32), "whole numbers of 32 bits, whose white is not known"),
        (np.array([[0, 128]], np.float32), "values from 0.0 to 128.0, .* are from 0 to 1: scale"),
        (np.array([[-0.5, 1]], np.float32), "values from -0.5 to 1.0, where fractions are from 0"),
        (np.array([[np.nan, 1]], np.float32), "values from nan to nan, where fractions are"),
    ],
)
def test_pixels_whose_range_is_not_known_are_refused(
    tmp_path: Path, pixels: Array, cause: str
) -> None:
    Image.fromarray(pixels).save(tmp_path / "some.tif")
    with pytest.raises(DataError, match=f"some.tif: {cause}"):
        decode(str(tmp_path / "some.tif"), (4, 4))


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "not an image that can be read"),
        (b"text", "not an image that can be read"),
        (huge_png(), "at most 64,000,000 are decoded"),
        (None, "not an image that can be read"),
    ],
    ids=["empty", "text", "huge", "truncated"],
)
def test_damaged_and_enormous_files_are_named(
    tmp_path: Path, content: bytes | None, cause: str
) -> None:
    tree(tmp_path)
    bad = tmp_path / "green" / "1.png"
    bad.write_bytes(bad.read_bytes()[:60] if content is None else content)
    dataset = load("images", data_dir=tmp_path, options={"test_split": 0})
    with pytest.raises(DataError, match=f"green/1.png: .*{cause}"):
        dataset.train.take(torch.arange(9))


def test_images_above_the_limit_are_refused_by_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path)
    monkeypatch.setattr("phalanx.data.formats.image_files.MOST_PIXELS", 10 * 30)
    dataset = load("images", data_dir=tmp_path, options={"test_split": 0})
    with pytest.raises(DataError, match=r"blue/1.png: 11×29 pixels; at most"):
        dataset.train.take(torch.arange(9))


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
