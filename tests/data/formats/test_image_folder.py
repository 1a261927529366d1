"""What in a folder of images is none of a user's images, or none at all."""

import os
from pathlib import Path

import pytest

from phalanx.comm.single import SingleCommunicator
from phalanx.data import load
from phalanx.data.formats.image_files import decode
from phalanx.data.formats.image_folder import find, image_paths
from phalanx.data.prepare import prepare
from phalanx.errors import DataError
from tests.data.formats.pictures import COLOURS, paint, tree
from tests.data.formats.test_hostile import in_time

__all__ = ["in_time"]


@pytest.mark.parametrize("name", ["__MACOSX", ".Trash", "@eaDir", "__pycache__", "lost+found"])
def test_folders_that_programs_leave_are_no_class(tmp_path: Path, name: str) -> None:
    tree(tmp_path)
    paint(tmp_path / name / "0.png", (1, 2, 3))
    paint(tmp_path / "red" / name / "0.png", (1, 2, 3))
    found = find(tmp_path)
    assert found.classes == ("blue", "green", "red")
    assert len(found.train.paths) == 9


def test_hidden_files_are_no_images(tmp_path: Path) -> None:
    tree(tmp_path, count=1)
    (tmp_path / "red" / "._0.png").write_bytes(b"what macOS keeps about 0.png")
    assert len(find(tmp_path).train.paths) == 3
    assert len(image_paths(tmp_path)) == 3
    (tmp_path / "data.csv").write_text("a,b\n1,x\n2,y\n3,x\n4,y\n5,x\n6,y\n")
    (tmp_path / "._data.csv").write_bytes(b"what macOS keeps about data.csv")
    assert load("csv", data_dir=tmp_path).classes == ("x", "y")


def test_a_named_pipe_among_images(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tree(tmp_path)
    os.mkfifo(tmp_path / "red" / "pipe.png")
    comm = SingleCommunicator()
    dataset = load("images", data_dir=tmp_path, options={"skip_bad": True, "test_split": 0.2})
    kept = prepare(dataset, {}, comm=comm)
    assert len(kept.train) + len(kept.test) == 9
    assert "pipe.png: not an image that can be read: it is a named pipe, not a file" in caplog.text
    with pytest.raises(DataError, match="it is a named pipe, not a file"):
        decode(str(tmp_path / "red" / "pipe.png"), (4, 4))


def test_a_png_with_other_pixels_than_were_written_is_damaged(tmp_path: Path) -> None:
    path = paint(tmp_path / "some.png", COLOURS["red"])
    whole = path.read_bytes()
    assert decode(str(path), (2, 2)).shape == (3, 2, 2)
    place = whole.index(b"IDAT") + 8
    for content in (
        whole[: place + 3] + bytes([whole[place + 3] ^ 1]) + whole[place + 4 :],
        whole[: whole.index(b"IEND") - 8] + b"\0\0\0\0" + whole[whole.index(b"IEND") - 4 :],
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"some.png: the checksum of its IDAT is wrong"):
            decode(str(path), (2, 2))
