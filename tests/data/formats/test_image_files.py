"""Files of images: of any kind, scaled to eight bits, and refused by their name."""

from pathlib import Path

import numpy as np
import pytest
import torch

from phalanx.data import load
from phalanx.data.arrays import Array
from phalanx.errors import DataError
from tests.data.formats.pictures import huge_png, tree

Image = pytest.importorskip("PIL.Image")
decode = pytest.importorskip("phalanx.data.formats.image_files").decode


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
