"""The pipes between a caller and its ranks: a call for each, answers of many that stay whole."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from phalanx.comm.calls.pipes import CallerPipes, RankPipes, read_some
from phalanx.errors import LaunchError

RANKS = 3
#: More than a pipe holds, and not a multiple of anything.
CALL = bytes(range(251)) * 20_000


@pytest.fixture
def pipes(monkeypatch: pytest.MonkeyPatch) -> Iterator[CallerPipes]:
    made = CallerPipes(CALL, ranks=RANKS, shows=False)
    monkeypatch.setenv("PHALANX_CALL", made.variables()["PHALANX_CALL"])
    yield made
    made.close()


def test_each_rank_reads_the_call(pipes: CallerPipes) -> None:
    with ThreadPoolExecutor(RANKS) as threads:
        read = [threads.submit(lambda: RankPipes().read_call()) for _ in range(RANKS)]
        while pipes.send():
            threading.Event().wait(0.001)
        assert [one.result(timeout=60) == CALL for one in read] == [True] * RANKS


def test_answers_of_many_ranks_at_a_time(pipes: CallerPipes) -> None:
    answers = {rank: bytes([rank]) * (300_000 + rank) for rank in range(RANKS)}
    received: dict[int, bytes] = {}
    with ThreadPoolExecutor(RANKS) as threads:
        for rank, content in answers.items():
            threads.submit(RankPipes().answer, rank, content)
        while len(received) < RANKS:
            read = read_some(pipes.answers.reading)
            # However little is read at a time.
            for start in range(0, len(read), 1000):
                for one in pipes.receive(read[start : start + 1000]):
                    received[one.rank] = bytes(one.content)
    assert received == answers


def test_a_caller_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one on another host, where a file of the same name is another one."""
    with open(os.devnull, "rb") as file:
        address = f"{os.getpid()}:{file.fileno()}:1:1:elsewhere"
        monkeypatch.setenv("PHALANX_CALL", " ".join([address, address, "0", "0"]))
        with pytest.raises(LaunchError, match="start the script with `phalanx run`"):
            RankPipes()
