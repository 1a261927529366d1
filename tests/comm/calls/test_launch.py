"""`phalanx.launch`: what comes back, what fails, and that nothing is left running."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import phalanx
from phalanx.comm.calls.launch import launch
from phalanx.errors import LaunchError, RankFailedError, UsageError
from tests.commands import environment


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name not in environment():
            monkeypatch.delenv(name)
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)


def waits_forever() -> Callable[[], None]:
    """A function that notes the number of its process in the folder, and never ends.

    It is in no module that ranks could import: that of these tests would have them import torch.
    """

    def forever() -> None:
        Path(f"rank-{os.environ['OMPI_COMM_WORLD_RANK']}").write_text(str(os.getpid()))
        while True:
            time.sleep(0.1)

    return forever


def wait_for(condition: Callable[[], Any], *, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ranks_here() -> list[int]:
    return [int(text) for file in Path().glob("rank-*") if (text := file.read_text())]


def are_gone(processes: list[int]) -> bool:
    return not any(Path(f"/proc/{process}").exists() for process in processes)


def interrupt_when(condition: Callable[[], Any]) -> None:
    """As Ctrl-C or a stopped cell would, from a thread."""

    def interrupt() -> None:
        wait_for(condition)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()


def test_tensors_come_back_whole(capsys: pytest.CaptureFixture[str]) -> None:
    class Answer:
        def __init__(self, rank: int, weights: dict[str, torch.Tensor]) -> None:
            self.rank, self.weights = rank, weights

    def train(start: torch.Tensor, *, factor: float) -> Answer:
        comm = phalanx.world()
        model = torch.nn.Linear(300, 300, bias=False)
        with torch.no_grad():
            model.weight.copy_(start * factor)
            comm.allreduce(model.weight)
        print(f"rank {comm.rank} of {comm.size} in the cell")
        return Answer(comm.rank, model.state_dict())

    start = torch.arange(90_000.0).reshape(300, 300)
    results = launch(train, (start,), ranks=2, kwargs={"factor": 2.0})
    assert all(type(one) is Answer for one in results)
    assert [one.rank for one in results] == [0, 1]
    for one in results:
        assert torch.equal(one.weights["weight"], start * 4)
    shown = capsys.readouterr()
    assert sorted(shown.out.splitlines()) == [f"rank {one} of 2 in the cell" for one in (0, 1)]
    assert shown.err == ""


def test_an_exception_is_raised_here(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        comm = phalanx.world()
        if comm.rank == 1:
            raise ArithmeticError("the seventh seal")
        comm.barrier()

    with pytest.raises(RankFailedError, match=r"^rank 1 of 2: ArithmeticError: the sev") as caught:
        launch(fail, ranks=2)
    assert isinstance(caught.value.__cause__, ArithmeticError)
    assert (caught.value.rank, caught.value.exit_code) == (1, 1)
    lines = caught.value.traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert Path(__file__).name in lines[1]
    assert lines[-1] == "ArithmeticError: the seventh seal"
    assert caught.value.traceback in str(caught.value)
    assert capsys.readouterr() == ("", "")  # said once


def test_what_fails_before_mpi_has_started(capsys: pytest.CaptureFixture[str]) -> None:
    class OddError(Exception):
        def __init__(self, one: int, two: int) -> None:  # cannot be made again from its message
            super().__init__(f"{one} and {two}")

    def fail() -> None:
        raise OddError(1, 2)

    with pytest.raises(RankFailedError, match="OddError: 1 and 2") as caught:
        launch(fail, ranks=1)
    assert caught.value.__cause__ is None
    assert capsys.readouterr() == ("", "")
    with pytest.raises(
        RankFailedError, match=r"rank 0 of 1: UsageError: what the .* a lock, cannot"
    ):
        launch(threading.Lock, ranks=1)
    with pytest.raises(RankFailedError, match=r"has ended its process by an exit \(7\)"):
        launch(sys.exit, (7,), ranks=1)


def test_a_rank_that_is_killed() -> None:
    def die() -> None:
        if int(os.environ["OMPI_COMM_WORLD_RANK"]) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)

    with pytest.raises(RankFailedError, match=r"rank 1 was ended by signal 9") as caught:
        launch(die, ranks=2)
    assert caught.value.rank == 1


def test_ranks_are_ended_after_the_timeout() -> None:
    with pytest.raises(RankFailedError, match=r"forever was not done after 4 s \(timeout\) on 2 r"):
        launch(waits_forever(), ranks=2, timeout=4)
    wait_for(lambda: are_gone(ranks_here()))


def test_an_interrupt_ends_the_ranks() -> None:
    interrupt_when(lambda: len(ranks_here()) == 2)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        launch(waits_forever(), ranks=2)
    assert signal.getsignal(signal.SIGINT) is before
    wait_for(lambda: are_gone(ranks_here()))
    assert launch(os.getcwd, ranks=2) == [os.getcwd()] * 2  # and again


def test_ranks_that_stop_in_order_have_a_result() -> None:
    def work() -> int:
        with phalanx.StopOnSignal() as stop:
            Path("rank-0").write_text(str(os.getpid()))
            while not stop():
                time.sleep(0.01)
        return stop()

    interrupt_when(ranks_here)
    assert launch(work, ranks=1) == [signal.SIGINT]


def test_threads_and_variables_of_a_rank_from_another_thread() -> None:
    found: list[Any] = []

    def look() -> tuple[str, ...]:
        return tuple(os.environ[name] for name in ("OMP_NUM_THREADS", "COLOUR"))

    def ask() -> None:
        found.extend(launch(look, ranks=1, threads=3, environment={"COLOUR": "blue"}))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert found == [("3", "blue")]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ranks": 0}, "ranks must be a whole number, at least 1, not 0"),
        ({"ranks": 2.5}, "ranks must be a whole number, at least 1, not 2.5"),
        ({"ranks": 100_000}, "100000 ranks for "),
        ({"ranks": 2, "threads": 0}, "threads must be a whole number, at least 1, not 0"),
        ({"ranks": 2, "args": 3}, r"args is a tuple of what print is given, as in \(3,\)"),
        ({"ranks": 2, "args": (threading.Lock(),)}, "argument 1 .* cannot be sent"),
        ({"ranks": 2, "environment": {"COLOUR": 3}}, "has texts by name, not 'COLOUR': 3"),
        ({"ranks": 2, "function": "train"}, "launch calls a function, and 'train' is none"),
    ],
)
def test_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        launch(options.pop("function", print), options.pop("args", ()), **options)


def test_refused_on_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    with pytest.raises(UsageError, match="one of 2 already: call print itself"):
        launch(print, ranks=2)


def test_what_the_launcher_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/proc/nowhere")
    with pytest.raises(LaunchError, match="name another folder with TMPDIR"):
        launch(print, ranks=1)
