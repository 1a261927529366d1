"""Help that can be read: what is used most, and all of it if asked for."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from phalanx.cli.app import PAGES, app
from phalanx.settings.table import SETTINGS
from phalanx.wording import flag


def help_of(*arguments: str) -> str:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "80"}).output


@pytest.mark.parametrize("command", ["train", "compare", "sweep", "evaluate"])
def test_help_is_short_and_names_the_long_one(command: str) -> None:
    short = help_of(command, "--help")
    assert len(short.splitlines()) < 100
    assert f"{command} --help-all" in short
    assert "--dataset" in short
    assert "--schedule-factor" not in short


def test_all_flags_have_a_help() -> None:
    whole = help_of("train", "--help-all")
    assert [name for name in SETTINGS if flag(name) not in whole] == []
    assert "--help-all" not in whole


def test_the_pages_are_named_and_there() -> None:
    docs, whole = Path(__file__).parents[2] / "docs", help_of("--help")
    assert [page for page in PAGES if page not in whole] == []
    missing = [
        one for one in PAGES if not any(docs.glob(f"{one}.md")) and not (docs / one).is_dir()
    ]
    assert missing == []
