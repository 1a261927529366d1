"""The commands of docs/ do what they say: all of them are run, for a few steps.

Those on several ranks run in the jobs of the tests, where nothing has to be started; others in
forks, those of a page one after the other in one folder.
"""

import shlex
from pathlib import Path

import pytest

from phalanx.comm.base import Communicator
from tests.commands import Phalanx
from tests.docs.pages import (
    ELSEWHERE,
    LONG,
    PAGES,
    ROOT,
    Command,
    all_commands,
    commands_of,
    python_of,
)
from tests.job_commands import OnRanks

COMMANDS = all_commands()


def on(ranks: int) -> list[Command]:
    return [one for one in COMMANDS if one.ranks == ranks]


def prepare(folder: Path) -> None:
    """What commands find in their folder: the examples, and files that pages show or speak of."""
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "moons.py").write_text(python_of("data.md").partition("assert ")[0])
    (folder / "train.py").write_text("import os\nassert os.environ['OMPI_COMM_WORLD_SIZE']\n")


def test_commands_are_found() -> None:
    assert len(COMMANDS) > 40
    assert {one.ranks for one in COMMANDS} == {0, 2, 3, 4}
    shown = {one.text for page in PAGES for one in commands_of(page)}
    assert set(LONG) <= shown
    assert [one.text for one in COMMANDS if "phalanx " not in one.text] == []


def test_what_is_run_elsewhere_is_run_there() -> None:
    for page, test in ELSEWHERE.items():
        assert page in PAGES
        assert Path(page).stem in (ROOT / test).read_text()
    assert [test for test in LONG.values() if not (ROOT / test).exists()] == []


#: The first that a newcomer reads, and when there is time the others.
WITH_COMMANDS = [
    pytest.param(page, marks=[pytest.mark.long] * (page != "get-started.md"))
    for page in sorted({one.page for one in on(0)})
]


@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_commands_of_a_page(page: str, phalanx: Phalanx, tmp_path: Path) -> None:
    prepare(tmp_path)
    for command in on(0):
        if command.page == page:
            done = phalanx(*shlex.split(command.arguments))
            assert done.returncode == 0, (command.text, done.stderr)


@pytest.mark.ranks(2, 3, 4)
def test_commands_on_ranks(
    ranks: int, comm: Communicator, on_ranks: OnRanks, shared_path: Path
) -> None:
    if comm.rank == 0:
        prepare(shared_path)
    comm.barrier()
    for command in on(ranks):
        on_ranks(*shlex.split(command.arguments))
