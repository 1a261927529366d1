"""A signal ends a training in order; a second one, or one where there is nothing to wait for, at
once."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from phalanx.checkpoints import read_checkpoint
from tests.cli.interruption.test_failures import rank_process
from tests.cli.interruption.waiting import FILE, SAMPLES, go_on, until_it_waits, waits
from tests.commands import Phalanx, end_of, environment, left_behind

Start = Callable[..., subprocess.Popen[str]]
SMALL = ("train", *SAMPLES)
#: One that nobody sees the end of.
LONG = (*SMALL, "--epochs", 1000000, "--shards", 2)
FINISHING = "{}: finishing the step and writing a checkpoint; once more to end at once"


def until_training(process: subprocess.Popen[str]) -> None:
    """Two epochs are behind it."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("epoch 2/"):
            return
    raise AssertionError(f"the training ended by itself: {process.communicate()[1]}")


def ended(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """The exit code as a shell has it, and what was said on standard error."""
    errors = end_of(process)[1]
    code = process.returncode
    return code if code >= 0 else 128 - code, errors.splitlines()


@pytest.mark.parametrize(
    ("ranks", "number", "came", "by"),
    [
        (1, signal.SIGINT, "interrupted", "interrupted"),
        pytest.param(1, signal.SIGTERM, "SIGTERM", "ended by SIGTERM", marks=pytest.mark.long),
        pytest.param(2, signal.SIGINT, "interrupted", "interrupted", marks=pytest.mark.long),
        (2, signal.SIGUSR1, "SIGUSR1", "ended by SIGUSR1"),
    ],
)
def test_the_step_is_finished_and_a_checkpoint_written(
    start: Start, tmp_path: Path, number: int, came: str, by: str, ranks: int
) -> None:
    process = start(*LONG, "--ranks", ranks)
    until_training(process)
    process.send_signal(number)
    code, said = ended(process)
    assert code == 128 + number
    first, last = said
    assert first == FINISHING.format(came)
    found = re.fullmatch(
        rf"{by}: runs/synthetic-mlp-1 keeps config.json, history.csv \(([\d,]+) epochs?\), "
        r"a checkpoint of step ([\d,]+), (?:in|after) .*; "
        r"go on with: phalanx train --resume runs/synthetic-mlp-1(.*)",
        last,
    )
    assert found is not None, last
    assert found[3] == ("" if ranks == 1 else " --ranks 2")
    (checkpoint,) = (tmp_path / "runs/synthetic-mlp-1/checkpoints").iterdir()
    position = read_checkpoint(checkpoint).values["position"]
    assert f"{position['step']:,}" == found[2]
    assert position["step"] - position["step_in_epoch"] == 32 * int(found[1].replace(",", ""))
    assert not (tmp_path / "runs/synthetic-mlp-1/.lock").exists()
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.long), 2])
def test_it_goes_on_to_the_weights_of_an_undisturbed_run(
    phalanx: Phalanx, start: Start, tmp_path: Path, ranks: int
) -> None:
    """It comes in the middle of a step, which waits until it has been heard."""
    asked = (*SMALL, *waits(tmp_path, "pass 70"), "--epochs", 4, "--shards", 2)
    process = start(*asked, "--ranks", ranks)
    until_it_waits(tmp_path, process)
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    assert process.stderr.readline() == FINISHING.format("SIGTERM") + "\n"
    go_on(tmp_path)
    code, said = ended(process)
    assert code == 143, said
    command = said[-1].partition("go on with: phalanx ")[2].split()
    done = [phalanx(*command, "--model", f"{FILE}:Net"), phalanx(*asked)]
    assert [one.returncode for one in done] == [0, 0], done[0].stderr
    (digest,) = {re.findall(r"weights sha256: (\w+)", one.stdout)[0] for one in done}
    assert len(digest) == 64


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_second_signal_ends_a_step_that_does_not(
    start: Start, tmp_path: Path, ranks: int
) -> None:
    process = start(*SMALL, *waits(tmp_path, "step"), "--ranks", ranks)
    until_it_waits(tmp_path, process)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert process.stderr.readline() == FINISHING.format("interrupted") + "\n"
    process.send_signal(signal.SIGTERM)
    code, said = ended(process)
    assert code == (128 + signal.SIGTERM if ranks == 1 else 128 + signal.SIGINT)
    assert said[-1].endswith(
        "runs/synthetic-net-1 keeps config.json; there is no checkpoint to go on from"
    )
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_signal_in_the_last_test_leaves_what_was_trained(
    start: Start, tmp_path: Path, ranks: int
) -> None:
    process = start(*SMALL, *waits(tmp_path, "test"), "--epochs", 1, "--ranks", ranks)
    until_it_waits(tmp_path, process)
    process.send_signal(signal.SIGUSR1)
    code, said = ended(process)
    assert code == 138
    (line,) = said
    assert line.startswith(
        "ended by SIGUSR1: runs/synthetic-net-1 keeps config.json, history.csv (1 epoch), "
        "model.safetensors, a checkpoint of step 32, after 1 epoch; the last test is missing; "
        "go on with: phalanx train --resume runs/synthetic-net-1"
    )
    assert left_behind(tmp_path) == []


def test_where_checkpoints_are_off_a_signal_ends_at_once(start: Start, tmp_path: Path) -> None:
    process = start(*SMALL, *waits(tmp_path, "step"), "--checkpoint-every", "never")
    until_it_waits(tmp_path, process)
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (
        143,
        [
            "ended by SIGTERM: runs/synthetic-net-1 keeps config.json; "
            "there is no checkpoint to go on from"
        ],
    )


@pytest.mark.long
def test_before_a_training_has_begun_there_is_nothing_to_wait_for(
    start: Start, tmp_path: Path
) -> None:
    process = start(*SMALL, *waits(tmp_path, "begin"), "--ranks", 2)
    until_it_waits(tmp_path, process)
    process.send_signal(signal.SIGUSR1)
    assert ended(process) == (138, ["ended by SIGUSR1"])
    assert left_behind(tmp_path) == []


@pytest.mark.long
def test_nohup_is_meant(tmp_path: Path) -> None:
    """A SIGHUP that was ignored stays so, on one rank and for a launcher."""
    script = "trap '' HUP; exec " + shlex.join(
        [sys.executable, "-m", "phalanx", *map(str, LONG), "--ranks", "2"]
    )
    with subprocess.Popen(
        ["sh", "-c", script],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        until_training(process)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        code, said = ended(process)
    assert code == 143
    assert said[0] == FINISHING.format("SIGTERM")


def test_a_rank_that_is_asked_by_itself_stops_all(start: Start, tmp_path: Path) -> None:
    """As under `srun`, or by hand; the launcher learns of it from rank 0."""
    process = start(*LONG, "--ranks", 2)
    until_training(process)
    os.kill(rank_process(process.pid), signal.SIGUSR1)
    code, said = ended(process)
    assert code == 138
    assert said[0].startswith("ended by SIGUSR1: runs/synthetic-mlp-1 keeps config.json")
    assert left_behind(tmp_path) == []


def test_under_a_users_own_mpirun_sigusr1_does_it(tmp_path: Path) -> None:
    """mpirun passes that one on; by any other it ends the ranks itself, within half a second."""
    mpirun = str(Path(sys.executable).parent / "mpirun")
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with subprocess.Popen(
        [mpirun, "-n", "2", "--oversubscribe", sys.executable, "-m", "phalanx", *map(str, LONG)],
        cwd=tmp_path,
        env=environment() | allowed,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        until_training(process)
        process.send_signal(signal.SIGUSR1)
        code, said = ended(process)
    assert code == 138
    assert said[0] == FINISHING.format("SIGUSR1")
    assert "go on with: phalanx train --resume runs/synthetic-mlp-1" in said[1]
    assert left_behind(tmp_path) == []


SCRIPT = """
import sys, torch, phalanx
torch.manual_seed(0)
model = torch.nn.Linear(4, 3)
samples = phalanx.Split(torch.randn(64, 4), torch.arange(64) % 3)
trainer = phalanx.Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1))
with phalanx.StopOnSignal() as stop:
    on_epoch = lambda epoch: print("epoch", epoch.number, flush=True)
    trainer.fit(
        samples, epochs=10**9, batch_size=8, checkpoint="kept", stop=stop, on_epoch=on_epoch
    )
print("stopped by", trainer.stopped)
"""


def test_a_script_stops_in_order_under_phalanx_run(start: Start, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    process = start("run", "-n", 2, sys.executable, "script.py")
    assert process.stdout is not None
    next(line for line in process.stdout if line.startswith("epoch 3"))
    process.send_signal(signal.SIGTERM)
    output, errors = end_of(process)
    assert (process.returncode, errors) == (0, FINISHING.format("SIGTERM") + "\n")
    assert output.count("stopped by 15\n") == 2
    assert list((tmp_path / "kept").glob("step-*/checkpoint.json"))
