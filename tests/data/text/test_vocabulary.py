"""Tokens and back."""

import pytest

from phalanx.data.text.vocabulary import BYTE_NAMES, Vocabulary, vocabulary_of
from phalanx.errors import DataError


@pytest.mark.parametrize("text", ["to be", "äöü", "😀\n\t\0", "\ud800x"])
def test_characters_come_back(text: str) -> None:
    vocabulary = vocabulary_of(text)
    assert vocabulary.names == tuple(sorted(set(text)))
    tokens = vocabulary.encode(text, where="here").tolist()
    assert [vocabulary.names[one] for one in tokens] == [*text]
    assert vocabulary.decode(tokens) == text


def test_bytes_come_back() -> None:
    vocabulary = vocabulary_of(b"any")
    assert vocabulary == Vocabulary(BYTE_NAMES, "bytes")
    assert vocabulary.decode(vocabulary.encode("zäh", where="here").tolist()) == "zäh"
    assert vocabulary.decode([0xFF, 0x41]) == "�A"


def test_strangers_are_named() -> None:
    with pytest.raises(DataError, match="the prompt: holds 'x', 'y', which"):
        vocabulary_of("abc").encode("axbyz"[:4], where="the prompt")
    many = "".join(map(chr, range(0x100, 0x120)))
    with pytest.raises(DataError, match="and 22 more"):
        vocabulary_of("abc").encode(many, where="the prompt")
