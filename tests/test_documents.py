"""Texts of settings and results that are damaged, or made to harm."""

from pathlib import Path

import pytest

from phalanx.documents import MOST_BYTES, parse_json, parse_toml, read_text


@pytest.mark.parametrize("deep", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000])
def test_json_of_any_depth_is_refused_by_a_sentence(deep: str) -> None:
    with pytest.raises(ValueError, match="nested more than 50 levels deep"):
        parse_json(deep)


@pytest.mark.parametrize(
    "deep", ["a = " + "[" * 100_000, "a." * 60 + "a = 1", "[" + "a." * 60 + "a]"]
)
def test_toml_of_any_depth_is_refused_by_a_sentence(deep: str) -> None:
    with pytest.raises(ValueError, match="nested more than 50 levels deep"):
        parse_toml(deep)


def test_what_others_cannot_compute_with() -> None:
    assert parse_json(str((1 << 63) - 1)) == (1 << 63) - 1
    with pytest.raises(ValueError, match="more than 64 bits"):
        parse_json('{"a": [' + "9" * 400 + "]}")
    with pytest.raises(ValueError, match="more than 64 bits"):
        parse_toml("a = 0x" + "f" * 5000)


def test_a_key_stands_once() -> None:
    with pytest.raises(ValueError, match="'a' stands there twice"):
        parse_json('{"b": {"a": 1, "a": 2}}')


def test_no_text_is_larger_than_any(tmp_path: Path) -> None:
    with (tmp_path / "some.json").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(OSError, match="it has more than 64 MiB"):
        read_text(tmp_path / "some.json")
