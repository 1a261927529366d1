"""The pages of docs/, and how their blocks are run."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tools.page_blocks import Block, blocks

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text() for path in sorted(DOCS.rglob("*.md"))}
#: Pages with tests of their own, which look at what comes of the blocks.
ELSEWHERE = {
    "advise.md": "tests/cli/observe/test_advise.py",
    "any-model.md": "tests/train/test_any_model_page.py",
    "api/keras.md": "tests/keras/test_migration.py",
    "checkpoints.md": "tests/checkpoints/test_page.py",
    "doctor.md": "tests/cli/observe/test_doctor.py",
    "figures.md": "tests/observe/plots/test_pages.py",
    "migration.md": "tests/keras/test_migration.py",
    "notebooks.md": "tests/comm/calls/test_script.py",
    "predictions.md": "tests/inference/test_page.py",
    "reports.md": "tests/observe/plots/test_pages.py",
    "tasks.md": "tests/cli/test_tasks.py",
    "text.md": "tests/cli/text/test_text.py",
    "trackers.md": "tests/observe/trackers/test_page.py",
}
#: What is not run, besides what is marked in a page: the page, how the block begins, and why.
NOT_RUN = {
    ("loading.md", "trainer.fit(JpegFiles"): "a line of a script of yours",
    ("own-data.md", "phalanx predict runs/csv-mlp-1"): "tests/inference/test_page.py has the same",
}
#: Commands that take long to start, and the tests that run such ones.
LONG = {
    "phalanx verify --dataset digits --model simplecnn": "tests/cli/observe/test_verify.py",
    "phalanx doctor --devices": "tests/observe/doctor/test_devices.py",
    "phalanx compare --strategies all --ranks 2": "tests/cli/test_compare.py",
    "phalanx compare --strategies single,allreduce,central --ranks 2 --epochs 10": (
        "tests/cli/test_compare.py"
    ),
    "phalanx train --shards 4 --ranks 4 --on-failure shrink": "tests/chaos/test_chaos.py",
    "phalanx train --shards 4 --ranks 4 --on-failure shrink --replace": "tests/chaos/test_chaos.py",
    "phalanx train --strategy pipeline --ranks 2 --on-failure restart --restarts 5": (
        "tests/chaos/test_chaos.py"
    ),
}
COMMANDS = ("sh", "bash")
#: What commands begin with in blocks that are indented, and so have no language.
_OURS = re.compile(r"(?:phalanx|mpirun|python) ")


@dataclass(frozen=True)
class Command:
    """A command that a page shows."""

    page: str
    text: str

    @property
    def ranks(self) -> int:
        """Those of a job that it can be run in; 0 if it runs alone, or starts others itself."""
        found = re.search(r"^(?:mpirun -n|phalanx train .*--ranks) (\d+)", self.text)
        return int(found[1]) if found else 0

    @property
    def arguments(self) -> str:
        """What follows `phalanx`, with few steps."""
        given = self.text.partition("phalanx ")[2]
        if "--resume" in given:
            return f"{given} --epochs 3"
        steps = 1 if "--batch-size full" in given else 2
        return (
            f"{given} --epochs 2 --steps-per-epoch {steps}" if given.startswith("train") else given
        )


def run_blocks(page: str) -> list[Block]:
    """Those that are run: neither marked, nor text."""
    kept = [one for one in blocks(PAGES[page]) if one.not_run is None and one.language != "text"]
    named = tuple(start for name, start in NOT_RUN if name == page)
    return [
        replace(one, language="sh") if not one.language and _OURS.match(one.text) else one
        for one in kept
        if not one.text.startswith(named)
    ]


def python_of(page: str) -> str:
    """All Python of a page, as one script."""
    return "\n\n".join(one.text for one in run_blocks(page) if one.language == "python")


def commands_of(page: str) -> Iterator[Command]:
    """The commands of a page, without comments."""
    for block in run_blocks(page):
        if block.language in COMMANDS:
            for line in block.text.replace("\\\n", " ").splitlines():
                if words := line.partition("  #")[0].strip():
                    yield Command(page, words)


def all_commands() -> list[Command]:
    """Those of all pages without tests of their own, each once."""
    found: dict[str, Command] = {}
    for page in PAGES:
        if page not in ELSEWHERE:
            for command in commands_of(page):
                found.setdefault(command.text, command)
    return [one for one in found.values() if one.text not in LONG]
