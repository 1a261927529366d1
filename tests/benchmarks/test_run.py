"""The benchmark's smoke run: everything starts, agrees and is reported; numbers mean nothing."""

import re
from pathlib import Path

import pytest

from benchmarks.launchers import Command, ContenderError, run
from benchmarks.run import main

ROWS = ["torch, 1 thread", "DDP tuned, bound", "phalanx allreduce", "Horovod"]
EXCHANGES = ["MPI_Allreduce, bound"]


@pytest.mark.long
def test_a_quick_run_writes_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--output", str(tmp_path), "--rows", *ROWS, *EXCHANGES]) == 0
    (file,) = tmp_path.glob("*.md")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d\.md", file.name)
    assert {one.name for one in tmp_path.iterdir()} == {file.name, f"{file.stem}.html"}
    text = file.read_text()
    assert text in capsys.readouterr().out
    for row in ("torch, 1 thread", "DDP tuned, bound", "phalanx allreduce"):
        assert re.search(rf"\| {row} \| [\d,]+ \|", text)
    assert re.search(r"\| 64 KiB \|( [\d.]+ (µs|ms) \|){2}", text)
    assert "**Wrong:**" not in text
    assert str(Path.cwd()) not in text


def test_batches_must_divide_by_the_ranks() -> None:
    with pytest.raises(SystemExit, match="the batch of iris-mlp, 16, does not divide by 3 ranks"):
        main(["--only", "iris-mlp", "--ranks", "3"])


def test_a_command_that_fails_says_so() -> None:
    with pytest.raises(ContenderError, match=r"ended with code 3: sh -c") as caught:
        run(Command(("sh", "-c", "echo the cause >&2; exit 3")), timeout=10)
    assert caught.value.details == "the cause\n"


def test_a_command_that_hangs_is_ended() -> None:
    with pytest.raises(ContenderError, match=r"took longer than 0 s: sleep 60"):
        run(Command(("sleep", "60")), timeout=0.2)


def test_a_command_prints_as_a_user_types_it() -> None:
    command = Command(("/somewhere/mpiexec", "-n", "2"), {"B": "2", "A": "1"})
    assert str(command.with_arguments("--only", "a b")) == "A=1 B=2 mpiexec -n 2 --only 'a b'"
