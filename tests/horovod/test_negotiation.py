"""What ranks conclude from what they have asked for, without ranks."""

from typing import Any

import pytest

from phalanx.horovod.engine.details import Details
from phalanx.horovod.engine.negotiation import Match, Negotiations
from phalanx.horovod.engine.requests import Description


def asked(verb: str, *shapes: tuple[int, ...], name: str = "x", **more: Any) -> Description:
    dtype = more.pop("dtype", "float32")
    return Description(f"{verb}.{name}", verb, (dtype,) * len(shapes), shapes, **more)


def opened(*names: str, number: int = 1, steps: int = 0, options: str = "") -> Description:
    details = Details(
        names=names,
        options=options,
        groups=(),
        separate=(),
        sparse=(),
        channels_last=(),
        halved=False,
        divisor=1.0,
        before=f"O.{number - 1}",
        steps=steps,
    )
    count = len(names)
    return Description(
        f"open.O.{number}", "open", ("float32",) * count, ((2,),) * count, details=details
    )


def conclude(*by_rank: Description) -> Match:
    """What becomes of one operation that each rank describes in its way."""
    table = Negotiations(range(len(by_rank)))
    for rank, description in enumerate(by_rank):
        assert table.ready() == []
        table.add(rank, [description])
    (match,) = table.ready()
    assert match.by_rank == dict(enumerate(by_rank))
    return match


MISMATCHES = {
    "dtype": (
        asked("allreduce", (2,), dtype="int32"),
        asked("allreduce", (2,), dtype="int64"),
        "allreduce.x: rank 0 brought int32[2], rank 1 brought int64[2]",
    ),
    "op": (
        asked("allreduce", (2,), op="Sum"),
        asked("allreduce", (2,), op="Max"),
        "allreduce.x: rank 0 asked for Sum, rank 1 asked for Max",
    ),
    "scale": (
        asked("allreduce", (2,), prescale=1.0),
        asked("allreduce", (2,), prescale=2.0),
        "allreduce.x: rank 0 scaled by 1 and 1, rank 1 scaled by 2 and 1",
    ),
    "root": (
        asked("broadcast", (2,), root=0),
        asked("broadcast", (2,), root=1),
        "broadcast.x: rank 0 named root 0, rank 1 named root 1",
    ),
    "broadcast shape": (
        asked("broadcast", (2,)),
        asked("broadcast", (3,)),
        "broadcast.x: rank 0 brought float32[2], rank 1 brought float32[3]",
    ),
    "row shape": (
        asked("allgather", (1, 2)),
        asked("allgather", (4, 3)),
        "allgather.x: rank 0 brought float32[rows, 2], rank 1 brought float32[rows, 3]",
    ),
    "alltoall dtype": (
        asked("alltoall", (2,), dtype="int32"),
        asked("alltoall", (2,), dtype="int64"),
        "alltoall.x: rank 0 brought int32[rows], rank 1 brought int64[rows]",
    ),
    "reducescatter shape": (
        asked("reducescatter", (2,)),
        asked("reducescatter", (3,)),
        "reducescatter.x: rank 0 brought float32[2], rank 1 brought float32[3]",
    ),
    "group": (
        asked("allreduce", (1,)),
        asked("allreduce", (1,), (1,)),
        "allreduce.x: rank 0 brought float32[1], rank 1 brought float32[1], float32[1]",
    ),
    "refused": (
        asked("allreduce", refused="no order"),
        asked("allreduce", (2,)),
        "allreduce.x was refused on rank 0: no order",
    ),
    "parameters": (
        opened("w"),
        opened("w", "b"),
        "O.1, parameter 1: rank 0 has no 'b', rank 1 has 'b' float32[2]",
    ),
    "options": (
        opened("w", options="op Sum"),
        opened("w", options="op Average"),
        "O.1: rank 0 asked for op Sum, rank 1 asked for op Average",
    ),
}


@pytest.mark.parametrize("case", MISMATCHES)
def test_what_differs_is_named(case: str) -> None:
    first, second, error = MISMATCHES[case]
    assert conclude(first, second).error == error
    assert conclude(second, second).error is None or second.refused


def test_what_may_differ() -> None:
    assert conclude(asked("allgather", (1, 2)), asked("allgather", (5, 2))).error is None
    assert conclude(opened("w", "b"), opened("b", "w")).error is None, "another order"


def test_ranks_that_agree_are_named_together() -> None:
    match = conclude(*(asked("allreduce", (1 + rank % 2,)) for rank in range(3)))
    assert match.error == ("allreduce.x: ranks 0, 2 brought float32[1], rank 1 brought float32[2]")


def test_members_go_by_their_own_numbers() -> None:
    table = Negotiations([3, 5])
    table.add(0, [asked("allreduce", (1,))])
    table.add(1, [asked("allreduce", (2,))])
    (match,) = table.ready()
    assert match.error == "allreduce.x: rank 3 brought float32[1], rank 5 brought float32[2]"


def test_what_is_ready_comes_in_the_same_order_on_all_ranks() -> None:
    table = Negotiations(range(2))
    names = ["c", "a", "b"]
    table.add(0, [asked("allreduce", (1,), name=name) for name in names])
    table.add(1, [asked("allreduce", (1,), name=name) for name in reversed(names)])
    assert [match.name for match in table.ready()] == [f"allreduce.{name}" for name in names]
    assert table.ready() == []
    assert table.brought("allreduce.a") == set()


@pytest.mark.parametrize(
    ("description", "error"),
    [
        (asked("allreduce", (1,), op="Sum"), None),
        (asked("allreduce", (1,), op="Max"), "allreduce.x: rank 0 joined, and zeros change what"),
        (asked("allgather", (1,)), "allgather.x: rank 0 joined, and allgather needs every rank"),
        (opened("w"), None),
    ],
)
def test_joined_ranks(description: Description, error: str | None) -> None:
    table = Negotiations(range(2))
    table.add(1, [description])
    assert table.ready() == []
    table.join(0, 1)
    (match,) = table.ready()
    assert match.by_rank == {1: description}
    assert match.error is None if error is None else str(match.error).startswith(error)


def test_the_last_rank_to_join() -> None:
    table = Negotiations([4, 6, 8])
    table.join(2, 1)
    table.join(1, 2)
    assert table.last_to_join() is None
    table.join(0, 2)
    table.join(2, 9)  # it had joined before
    assert table.last_to_join() == 6, "of those in the last round the highest"


def test_a_name_for_two_operations() -> None:
    table = Negotiations(range(3))
    table.add(0, [asked("allreduce", (1,))])
    table.add(1, [asked("broadcast", (1,))])
    assert table.conflicts() == []  # the third may still ask for one of them
    assert table.take_conflict("x") == []
    table.add(2, [asked("broadcast", (1,))])
    assert table.conflicts() == ["x"]
    matches = table.take_conflict("x")
    assert {match.name for match in matches} == {"allreduce.x", "broadcast.x"}
    error = "'x': rank 0 called allreduce, ranks 1, 2 called broadcast"
    assert {match.error for match in matches} == {error}
    assert table.conflicts() == []


def test_an_open_that_others_will_not_come_to() -> None:
    """Rank 0 has other parameters, and rank 1 waits for it in a step of the channel before."""
    table = Negotiations(range(2))
    table.add(0, [opened("w", number=2, steps=3)])
    assert table.take_left_behind({"O.1": {1: 3}}) == []  # rank 0 was in that step
    opening, step = table.take_left_behind({"O.1": {1: 4}})
    assert (opening.name, step.name) == ("open.O.2", "O.1.step")
    assert opening.error == step.error
    assert str(opening.error).startswith("O: the parameters to exchange changed on rank 0 but not")
