"""The package as a whole: its public names, what it loads, and the scripts it shows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import phalanx
from phalanx.comm.launch.mpiexec import mpiexec_command

ROOT = Path(__file__).parent.parent
NAMES = [
    "__version__",
    "AveragedWeights",
    "Batch",
    "Callback",
    "Checkpoints",
    "Communicator",
    "Dataset",
    "DistributedSampler",
    "Epoch",
    "FlatParameters",
    "Loss",
    "Objective",
    "Optimizers",
    "Outcome",
    "OwnStep",
    "PartGradients",
    "PhalanxError",
    "ProgressBar",
    "RankFailedError",
    "Share",
    "Slice",
    "Split",
    "State",
    "StopOnSignal",
    "Strategy",
    "Task",
    "TrainedModel",
    "Trainer",
    "UsageError",
    "WholeModel",
    "Worker",
    "average_buffers",
    "broadcast_model",
    "gather",
    "in_parts",
    "launch",
    "load",
    "load_whole",
    "pin_device",
    "whole_state",
    "world",
]


def test_public_names() -> None:
    assert phalanx.__all__ == NAMES
    for name in phalanx.__all__:
        assert getattr(phalanx, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        phalanx.nothing  # noqa: B018


def test_the_command_line_starts_without_torch_and_mpi() -> None:
    code = (
        "import sys, phalanx.cli.app, phalanx.settings.rules; "
        "assert not {'torch', 'mpi4py', 'safetensors'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_readme_shows_the_example() -> None:
    shown = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert (ROOT / "examples" / "own_model.py").read_text() in shown


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.long), 2])
def test_the_example_learns(ranks: int) -> None:
    command, environment = mpiexec_command(ranks)
    script = [sys.executable, str(ROOT / "examples" / "own_model.py")]
    done = subprocess.run(
        [*(command if ranks > 1 else []), *script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.fullmatch(rf"accuracy ([\d.]+)% \(ranks: {ranks}\)", done.stdout.strip())
    assert found, done.stdout
    assert float(found.group(1)) > 90
