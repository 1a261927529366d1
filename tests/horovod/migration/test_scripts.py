"""Scripts as public code writes them, unchanged, under `phalanx run --horovod`."""

import re
import sys
from pathlib import Path

import pytest

from tests.commands import Phalanx

HERE = Path(__file__).parent
#: Starts ranks of its own, and so has one of ours.
STARTS_RANKS = "run_function"
SCRIPTS = sorted(one.stem for one in (HERE / "scripts").glob("*.py"))
LINE = re.compile(r"(\w+): loss ([\d.]+) -> ([\d.]+)")


def learnt(output: str) -> list[str]:
    """The scripts that said that their loss went down."""
    found = LINE.findall(output)
    assert all(float(last) < float(first) for _, first, last in found), output
    return [name for name, _, _ in found]


@pytest.mark.long
def test_scripts_in_one_job(process: Phalanx) -> None:
    names = [name for name in SCRIPTS if name != STARTS_RANKS]
    assert len(names) == 11
    scripts = [HERE / "scripts" / f"{name}.py" for name in names]
    driver = HERE / "one_after_the_other.py"
    strict = ("-W", "error", "-W", "ignore::DeprecationWarning")  # the latter are torch's own
    done = process("run", "--horovod", "-np", 2, sys.executable, *strict, driver, *scripts)
    assert done.returncode == 0, done.stderr
    assert learnt(done.stdout) == names


@pytest.mark.long
def test_a_script_that_starts_ranks(process: Phalanx) -> None:
    script = HERE / "scripts" / f"{STARTS_RANKS}.py"
    done = process("run", "--horovod", "-np", 1, sys.executable, script)
    assert (done.returncode, done.stderr) == (0, "")
    assert learnt(done.stdout) == [STARTS_RANKS]
