"""A text becomes windows, each with the tokens that follow; nothing of it is copied."""

import gzip
from pathlib import Path

import pytest
import torch

from phalanx import data
from phalanx.data.split import Dataset, Split
from phalanx.errors import DataError, PhalanxError, UsageError
from tools import tales

TEXT = "abcdefghijklmnopqrst"


def load(path: Path, **options: object) -> Dataset:
    data.check("text", path, options=options)
    return data.load("text", data_dir=path, options=options)


def words(dataset: Dataset, split: Split) -> list[tuple[str, str]]:
    """Inputs and targets as texts."""
    samples = split.take(torch.arange(len(split)))
    assert samples.inputs.dtype == samples.targets.dtype == torch.int64
    return [
        tuple("".join(dataset.classes[one] for one in row.tolist()) for row in pair)  # type: ignore[misc]
        for pair in zip(samples.inputs, samples.targets, strict=True)
    ]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "some"
    path.write_text(TEXT)
    return path


def test_windows_and_what_follows(file: Path) -> None:
    dataset = load(file, context_length=5, test_split=0.3)
    assert words(dataset, dataset.train) == [("abcde", "bcdef"), ("fghij", "ghijk")]
    assert words(dataset, dataset.test) == [("opqrs", "pqrst")]
    assert dataset.input_shape == (5,)
    assert dataset.classes == tuple(TEXT)


def test_windows_that_overlap_share_their_memory(file: Path) -> None:
    dataset = load(file, context_length=5, window_step=1, test_split=0.0)
    assert dataset.test is dataset.train
    assert words(dataset, dataset.train)[1:3] == [("bcdef", "cdefg"), ("cdefg", "defgh")]
    for tensor in (dataset.train.inputs, dataset.train.targets):
        assert len(tensor) == 15
        assert tensor.untyped_storage().nbytes() == 8 * len(TEXT)


def test_any_bytes(tmp_path: Path) -> None:
    path = tmp_path / "some"
    path.write_bytes(bytes(range(256)))
    dataset = load(path, tokens="bytes", context_length=4, test_split=0.0)
    assert dataset.classes[254:] == ("fe", "ff")
    samples = dataset.train.take(torch.tensor([62]))
    assert samples.inputs.tolist() == [[248, 249, 250, 251]]
    assert samples.targets.tolist() == [[249, 250, 251, 252]]


def test_characters_beyond_ascii_in_any_encoding(tmp_path: Path) -> None:
    text = "zäöü€😀" * 3
    for encoding in ("utf-8", "utf-16", "cp1252"):
        path = tmp_path / encoding
        path.write_bytes(text.replace("😀", "").encode(encoding))
        options = {"encoding": "cp1252"} if encoding == "cp1252" else {}
        dataset = load(path, context_length=3, test_split=0.0, **options)
        assert dataset.classes == tuple("zäöü€")
    path.write_bytes(gzip.compress(text.encode()))
    assert load(path, context_length=3, test_split=0.0).classes[-1] == "😀"


def test_a_folder_of_texts(tmp_path: Path) -> None:
    for name, text in (("b.txt", "fghij"), ("a.txt", "abcde"), (".c.txt", "x"), ("d.csv", "y")):
        (tmp_path / name).write_text(text)
    dataset = load(tmp_path, context_length=9, test_split=0.0)
    assert words(dataset, dataset.train) == [("abcdefghi", "bcdefghij")]
    (tmp_path / "train.txt").write_text("aabb")
    (tmp_path / "test.txt").write_text("ccac")
    dataset = load(tmp_path, context_length=3)
    assert words(dataset, dataset.train) == [("aab", "abb")]
    assert words(dataset, dataset.test) == [("cca", "cac")]
    with pytest.raises(UsageError, match=r"test\.txt of its own: leave out --test-split"):
        load(tmp_path, test_split=0.2)


def test_the_vocabulary_of_a_training(file: Path) -> None:
    vocabulary = (*reversed(TEXT), "!")
    options = {"context_length": 3, "test_split": 0.0}
    dataset = data.load("text", data_dir=file, options=options, vocabulary=vocabulary)
    assert dataset.classes == vocabulary
    assert words(dataset, dataset.train)[0] == ("abc", "bcd")
    with pytest.raises(DataError, match=r"holds 's', 't', which the text .* does not"):
        data.load("text", data_dir=file, options=options, vocabulary=tuple(TEXT[:-2]))


@pytest.mark.parametrize(
    ("content", "options", "cause"),
    [
        (b"", {}, "is empty"),
        (b"aaaaaaaa", {"context_length": 2}, "but one character"),
        (b"abc", {}, "too few for samples of 64 and the one that follows"),
        (b"abcdefgh", {"context_length": 4}, "2 tokens to train on or to test with are too few"),
        (b"\xff\xfeab\xff", {}, "utf-16"),
        (b"a\xffb", {}, "--encoding"),
        (b"ab" * 99, {"tokens": "bytes", "encoding": "ascii"}, "--encoding is for characters"),
        (b"\x1f\x8b damaged", {}, "cannot be read"),
    ],
)
def test_what_is_no_text(
    tmp_path: Path, content: bytes, options: dict[str, object], cause: str
) -> None:
    path = tmp_path / "some.txt"
    path.write_bytes(content)
    with pytest.raises(PhalanxError, match=cause):
        load(path, **options)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere does not exist; searched for train\.txt"):
        load(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"lacks train\.txt and test\.txt, or any \*\.txt"):
        load(tmp_path)


def test_more_than_memory_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.data.text.samples.free_memory", lambda: 24 * len(TEXT) - 1)
    with pytest.raises(DataError, match="more text than memory is free for"):
        load(file, context_length=3)


def test_the_embedded_tales_are_those_of_the_grammar() -> None:
    embedded = Path(data.__file__).parent / "embedded" / "text.txt"
    assert embedded.read_text() == tales.text()
    dataset = data.load("text")
    assert len(dataset.train) > 4 * len(dataset.test) - 8 > 1000
    assert len(dataset.classes) == len(set(tales.text()))
