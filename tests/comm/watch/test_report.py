"""What a person reads about ranks that stand still."""

import re
import socket

import pytest

from phalanx.comm.watch.blame import Condition, Standing
from phalanx.comm.watch.report import Stalled

HOST = socket.gethostname()
WAITING = '  File "mpi.py", line 1, in barrier\n'
WORKING = '  File "net.py", line 7, in forward\n'


def said(
    *ranks: Standing,
    hint: str = "",
    stacks: dict[int, str] | None = None,
    elsewhere: dict[str, list[int]] | None = None,
) -> str:
    blamed = tuple(one for one in ranks if one.condition < Condition.WAITING)
    text = str(Stalled(ranks, blamed, stacks or {}, hint, elsewhere or {}))
    return re.sub(r"\d\d:\d\d:\d\d", "12:00:00", text)


def test_the_rank_its_place_and_every_stack() -> None:
    ranks = (
        Standing(0, 10, Condition.WAITING, 301.0, step=7),
        Standing(1, 11, Condition.BUSY, 301.0, step=1234, load=0.97),
        Standing(2, 12, Condition.WAITING, 300.0, step=7),
        Standing(3, 13, Condition.OVER, 900.0),
    )
    stacks = {0: WAITING, 1: WORKING, 2: WAITING, 3: "never"}
    assert said(*ranks, hint="(more time)", stacks=stacks) == (
        f"rank 1 (process 11 on {HOST}) has stood still since 12:00:00 (5 minutes), after step "
        "1,234: it computes, on 97% of a core: in an endless loop, or for very long\n"
        "(more time)\n"
        "ranks 0, 2 (waiting for other ranks):\n"
        '  File "mpi.py", line 1, in barrier\n'
        "rank 1 (computing):\n"
        '  File "net.py", line 7, in forward'
    )


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (Condition.STOPPED, "its process is stopped, by a signal such as SIGSTOP"),
        (Condition.STOPPED, "a stopped process cannot tell where it is"),
        (Condition.SILENT, "its Python does not run, as in C code that keeps Python's lock"),
        (Condition.BLOCKED, "it waits in the kernel for a file system or a device, in nfs_wait"),
        (Condition.BUSY, "it waits for something that is no rank"),
    ],
)
def test_why(condition: Condition, words: str) -> None:
    text = said(Standing(0, 10, condition, 60.4, place="nfs_wait"))
    assert words in text
    assert "(60 seconds), before its first step was done: " in text
    assert ("did not tell where" in text) == (condition != Condition.STOPPED)


def test_what_a_stopped_rank_said_last_may_be_a_second_old() -> None:
    one = Standing(0, 10, Condition.STOPPED, 60, runs=False)
    assert "(60 seconds), before its first step, or soon after: " in said(one)
    assert "(60 seconds), after about step 7: " in said(one._replace(step=7))


def test_more_time_does_not_help_whoever_is_stopped() -> None:
    assert "more time" not in said(Standing(0, 10, Condition.STOPPED, 60), hint="(more time)")
    assert "more time" in said(Standing(0, 10, Condition.BLOCKED, 60), hint="(more time)")


WAIT = [Standing(rank, 10, Condition.WAITING, 70 + rank, step=5) for rank in (4, 5)]


def test_all_wait_for_ranks_elsewhere() -> None:
    elsewhere = {f"node{host}": [10 * host, 10 * host + 1] for host in range(1, 7)}
    stacks = {4: WAITING, 5: WAITING}
    text = said(*WAIT, stacks=stacks, elsewhere={"node1": [0, 1], "node2": [2]})
    assert text == (
        f"ranks 4, 5 on {HOST}: nothing was done since 12:00:00 (74 seconds), after step 5, and "
        "all wait for others (ranks 0, 1 on node1, rank 2 on node2), or for each other\n"
        f"ranks 4, 5 (waiting for other ranks):\n{WAITING.rstrip()}"
    )
    assert "ranks 40, 41 on node4, and on 2 more hosts), or" in said(*WAIT, elsewhere=elsewhere)


def test_all_wait_for_each_other() -> None:
    text = said(*WAIT, hint="(more time)")
    assert "and all wait for each other\n(more time)\n" in text
