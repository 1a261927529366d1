"""A watch over ranks, some of which stand still."""

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from phalanx.comm import shared
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.comm.watch import Stalled, Watch, ending, kill_rank, processes
from phalanx.comm.watch.blame import Condition, Standing
from phalanx.comm.watch.processes import born, standing
from phalanx.comm.watch.slots import Slot
from phalanx.pulse import pulse
from tests.commands import PATIENCE

#: Seconds; a crowded machine may leave a rank without a core for a good part of one.
AFTER = 2.0
PARENT = os.getppid()


class Heard:
    """What a watch has to say, and a file that is there once it has said something."""

    def __init__(self, folder: Path) -> None:
        self.said: list[Stalled] = []
        self.file = folder / "said"

    def __call__(self, stalled: Stalled) -> None:
        self.said.append(stalled)
        self.file.touch()


def watched(
    comm: Communicator, folder: Path, work: Callable[[Heard], None], *, after: float = AFTER
) -> Heard:
    """Collective. What is said while every rank works; then they wait for each other."""
    heard = Heard(folder)
    with Watch(after, on_stall=heard, hint="(more time)") as watch:
        watch.start(comm)
        work(heard)
        comm.barrier()
    return heard


def stand_still(heard: Heard) -> None:
    """Until somebody's watch has said something."""
    while not heard.file.exists():
        time.sleep(0.01)


@pytest.mark.ranks(1, 2, 3)
def test_whoever_stands_still_is_named_with_the_stacks_of_all(
    comm: Communicator, shared_path: Path
) -> None:
    last = comm.size - 1

    def work(heard: Heard) -> None:
        pulse.step = 17
        if comm.rank == last:
            stand_still(heard)

    heard = watched(comm, shared_path, work)
    said = comm.broadcast_object([(one.blamed, dict(one.stacks), str(one)) for one in heard.said])
    blamed, stacks, text = said[0]
    assert [(one.rank, one.step) for one in blamed] == [(last, 17)]
    assert blamed[0].condition == Condition.BUSY
    assert blamed[0].idle >= 0.8 * AFTER
    assert sorted(stacks) == list(range(comm.size))
    assert ", in stand_still\n" in stacks[last]
    assert all('comm/mpi.py", line' in stacks[rank] for rank in range(last))
    assert f"rank {last} (process" in text
    assert "(more time)" in text
    assert comm.rank == 0 or not heard.said  # one speaks for a host


@pytest.mark.ranks(2)
def test_slow_but_steady_ranks_are_left_alone(comm: Communicator, shared_path: Path) -> None:
    def work(_heard: Heard) -> None:
        for _ in range(50):
            time.sleep(0.1)
            pulse.beats += 1
        comm.barrier()

    assert not watched(comm, shared_path, work, after=4.0).said


@pytest.mark.ranks(1)
def test_loading_is_progress_and_after_the_first_step_it_is_not(
    comm: Communicator, shared_path: Path
) -> None:
    def read(heard: Heard, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not heard.said:
            with open(__file__, "rb") as file:
                file.read(100)
            time.sleep(0.05)

    def work(heard: Heard) -> None:
        read(heard, 5.0)
        assert not heard.said
        pulse.step = 1
        read(heard, PATIENCE)

    assert watched(comm, shared_path, work, after=4.0).said


@pytest.mark.ranks(2)
def test_a_rank_whose_python_does_not_run(comm: Communicator, shared_path: Path) -> None:
    """Its stack comes by a signal, and it goes on as if nothing had been."""

    def keep_pythons_lock(_heard: Heard) -> None:
        if comm.rank == 1:
            ctypes.PyDLL(None).sleep(200)  # the signal ends it

    heard = watched(comm, shared_path, keep_pythons_lock)
    said = comm.broadcast_object([(one.blamed, dict(one.stacks)) for one in heard.said])
    blamed, stacks = said[0]
    assert [(one.rank, one.condition) for one in blamed] == [(1, Condition.SILENT)]
    assert ", in keep_pythons_lock\n" in stacks[1]
    assert "phalanx/comm/watch/watch.py" not in stacks[1]
    assert signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL


@pytest.mark.long
@pytest.mark.ranks(2)
def test_a_handler_of_a_users_is_not_called(comm: Communicator, shared_path: Path) -> None:
    called: list[int] = []

    def keep_pythons_lock(_heard: Heard) -> None:
        signal.signal(signal.SIGUSR2, handler)
        time.sleep(AFTER / 2)  # for the thread to notice
        if comm.rank == 1:
            ctypes.PyDLL(None).sleep(8)  # silent after 2 s, and asked for as long again

    def handler(number: int, _frame: object) -> None:
        called.append(number)

    try:
        heard = watched(comm, shared_path, keep_pythons_lock)
        assert signal.getsignal(signal.SIGUSR2) is handler
        os.kill(os.getpid(), signal.SIGUSR2)
        assert called == [signal.SIGUSR2]  # it is still the one, and was not called before
    finally:
        signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    if comm.rank == 0:
        assert "it did not tell where it is" in str(heard.said[0])


def test_without_memory_in_common_a_rank_watches_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise shared.SharedMemoryError("none")

    monkeypatch.setattr("phalanx.comm.watch.slots.SharedMemory", refuse)
    heard = watched(SingleCommunicator(), tmp_path, stand_still)
    assert heard.said[0].blamed[0].process == os.getpid()


def test_it_goes_on_after_a_stall(tmp_path: Path) -> None:
    def work(heard: Heard) -> None:
        stand_still(heard)
        heard.file.unlink()
        stand_still(heard)

    assert len(watched(SingleCommunicator(), tmp_path, work).said) >= 2


def test_never() -> None:
    with Watch(None) as watch:
        watch.start(SingleCommunicator())
        assert "phalanx-watch" not in [one.name for one in threading.enumerate()]


@pytest.mark.parametrize(
    ("changed", "condition"),
    [
        ({}, Condition.BUSY),
        ({"waits": 1}, Condition.WAITING),
        ({"over": 1}, Condition.OVER),
        ({"looked": 0}, Condition.SILENT),
        ({"looked": 0, "waits": 1}, Condition.SILENT),
        ({"process": 2**22 + 1}, Condition.OVER),
        ({"born": 1}, Condition.OVER),  # another process of that number
    ],
)
def test_how_a_rank_is(changed: dict[str, int], condition: Condition) -> None:
    second = 10**9
    slot = Slot(1, PARENT, born(PARENT), 60 * second, 10 * second, 5, 0, 25 * second, -1, 0)
    found = standing(slot._replace(**changed), now=61 * second, awake=0, silent=5.0)
    assert (found.condition, found.idle, found.step) == (condition, 51.0, 5)
    if not changed:
        assert found.load == 0.5
        assert standing(slot, now=61 * second, awake=60 * second, silent=5.0).idle == 1.0


@pytest.mark.parametrize(
    ("state", "condition"),
    [
        ("T", Condition.STOPPED),
        ("t", Condition.STOPPED),
        ("D", Condition.BLOCKED),
        ("S", Condition.SILENT),
        ("Z", Condition.OVER),
    ],
)
def test_what_the_kernel_says_comes_first(
    monkeypatch: pytest.MonkeyPatch, state: str, condition: Condition
) -> None:
    """Of a rank that has not looked for a minute, and so does not judge either."""
    monkeypatch.setattr(processes, "_state", lambda _process: state)
    slot = Slot(1, PARENT, born(PARENT), 0, 0, 5, 0, 0, -1, 0)
    found = standing(slot, now=60 * 10**9, awake=0, silent=5.0)
    assert (found.condition, found.runs) == (condition, False)


def test_killing_ends_the_job_where_nobody_or_everybody_is_to_blame(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class EndedError(Exception): ...

    def end(_stalled: Stalled) -> None:
        raise EndedError

    killed: list[int] = []
    monkeypatch.setattr(ending, "end_job", end)
    monkeypatch.setattr(os, "kill", lambda process, _number: killed.append(process))
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    ranks = tuple(Standing(rank, 10 + rank, Condition.STOPPED, 60) for rank in (0, 1))
    for blamed in ((), ranks):
        with pytest.raises(EndedError):
            kill_rank(Stalled(ranks, blamed, {}))
    assert not killed
    kill_rank(Stalled(ranks, ranks[1:], {}))
    assert killed == [11]
    assert capfd.readouterr().err.endswith("rank 1: killed, for the others to go on\n")
