"""`make demo`, with less of everything."""

import re
import subprocess
import sys
from pathlib import Path

from tests.commands import environment

PROJECT = Path(__file__).parents[2]


def test_the_demo_fits_on_a_screen_and_shows_what_it_says() -> None:
    done = subprocess.run(
        [sys.executable, "examples/demo.py", "--quick"],
        cwd=PROJECT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) < 24
    assert all(len(line) <= 80 for line in lines)
    rates = re.findall(r"^  (?:phalanx train|torchrun) .* ([\d,]+) +[\d.]+×$", done.stdout, re.M)
    assert len(rates) == 2
    digests = re.findall(r"^  phalanx train \$BITS.* ([0-9a-f]{20})…$", done.stdout, re.M)
    assert len(digests) == 2
    assert len(set(digests)) == 1
    assert "1 rank lost" in done.stdout
