"""What docs/sweeps.md and docs/slurm.md say to type: sweeps are planned, jobs written."""

import re
import shlex
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from phalanx.cli.app import app
from phalanx.cli.flags.sweep import read_sweep

ROOT = Path(__file__).parents[3]
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("sweeps", "slurm")}


def commands(page: str, name: str) -> list[str]:
    """Those of a page that stand on lines of their own."""
    return re.findall(rf"^phalanx {name} (.*)$", PAGES[page], re.MULTILINE)


@pytest.mark.parametrize("line", commands("sweeps", "sweep"))
def test_a_sweep_can_be(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    sweep = typer.main.get_command(app).commands["sweep"]  # type: ignore[attr-defined]
    context = sweep.make_context("sweep", shlex.split(line))
    assert len(read_sweep(context.params, context=context).combinations) > 1


@pytest.mark.parametrize("line", commands("slurm", "submit"))
def test_a_job_can_be(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = [one for one in shlex.split(line.partition(" >")[0]) if one != "--wait"]
    done = CliRunner().invoke(app, ["submit", "--dry-run", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "\nexec phalanx " in done.stdout.replace("srun --mpi=pmix ", "")


def test_the_script_is_the_one_that_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    srun = tmp_path / "srun"
    srun.write_text("#!/bin/sh\necho pmix\n")
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", "/home/me/.venv")
    monkeypatch.chdir(ROOT)
    ((line, script),) = re.findall(
        r"^\$ phalanx ([^\n]*)\n(#!.*?)^```$", PAGES["slurm"], re.M | re.S
    )
    done = CliRunner().invoke(app, shlex.split(line), catch_exceptions=False)
    assert done.stdout == script
