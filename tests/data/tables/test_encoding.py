"""Tables in the encodings that programs write."""

import codecs
import gzip
from pathlib import Path

import pytest

from phalanx.data import check, load
from phalanx.errors import DataError, UsageError

TEXT = "größe,kind\n1,süß\n2,sauer\n3,süß\n"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (TEXT.encode(), None),
        (TEXT.encode("utf-8-sig"), None),
        (TEXT.encode("utf-16"), None),
        (codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), None),
        (TEXT.encode("utf-32"), None),
        (TEXT.encode("utf-8-sig"), "UTF8"),
        (TEXT.encode("cp1252"), "cp1252"),
        (TEXT.encode("latin-1"), "latin-1"),
        (TEXT.encode("utf-16-le"), "utf-16-le"),
    ],
)
def test_encodings(tmp_path: Path, content: bytes, encoding: str | None, packed: bool) -> None:
    path = tmp_path / "some.csv"
    path.write_bytes(gzip.compress(content) if packed else content)
    options = {"test_split": 0} | ({} if encoding is None else {"encoding": encoding})
    check("csv", path, options=options)
    dataset = load("csv", data_dir=path, options=options)
    assert dataset.classes == ("sauer", "süß")
    assert dataset.table is not None
    assert dataset.table.inputs[0].name == "größe"


@pytest.mark.parametrize(
    ("content", "encoding", "cause"),
    [
        (TEXT.encode("cp1252"), None, r"not a table of text in utf-8 .*--encoding, such as cp1252"),
        (TEXT.encode("utf-16-le"), None, "it holds zero bytes, .*--encoding, such as utf-16-le"),
        (TEXT.encode("cp1252"), "ascii", "not a table of text in ascii .*--encoding"),
    ],
)
def test_other_encodings_are_told(
    tmp_path: Path, content: bytes, encoding: str | None, cause: str
) -> None:
    path = tmp_path / "some.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"some.csv: .*{cause}"):
        check("csv", path, options={} if encoding is None else {"encoding": encoding})


@pytest.mark.parametrize("name", ["utf-9", "rot13", "gzip"])
def test_encodings_that_are_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "some.csv").write_text(TEXT)
    with pytest.raises(UsageError, match=f"--encoding {name}: there is no such encoding"):
        check("csv", tmp_path, options={"encoding": name})
