"""Files that appear whole or not at all."""

import os
from pathlib import Path

import pytest

from phalanx.whole_files import whole_file


def test_a_file_appears_when_it_is_done(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with whole_file(path) as beside:
        assert beside.suffix == ".onnx"
        assert not path.exists()
        beside.write_text("all of it")
    assert path.read_text() == "all of it"
    assert os.listdir(tmp_path) == ["model.onnx"]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("before")

    def fill_the_disk() -> None:
        with whole_file(path) as beside:
            beside.write_text("half of")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        fill_the_disk()
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["result.json"]


def test_a_link_that_somebody_has_laid_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if its name was guessed; a name of its own for each file is why that is unlikely."""
    target = tmp_path / "precious"
    target.write_text("mine")
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    (tmp_path / "a.partial-guessed.csv").symlink_to(target)
    with pytest.raises(FileExistsError), whole_file(tmp_path / "a.csv"):
        pass
    assert target.read_text() == "mine"
    monkeypatch.undo()
    names = set()
    for _ in range(2):
        with whole_file(tmp_path / "a.csv") as beside:
            names.add(beside.name)
    assert len(names) == 2


def test_the_mode_is_that_of_any_new_file(tmp_path: Path) -> None:
    path, plain = tmp_path / "model.safetensors", tmp_path / "plain"
    plain.touch()
    with whole_file(path) as beside:
        beside.chmod(0o600)  # as safetensors does
    assert path.stat().st_mode == plain.stat().st_mode
