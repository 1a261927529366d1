"""One forward, one backward: complete, in order, without deadlock, with few activations alive."""

import pytest

from phalanx.strategies.pipeline.schedule import Operation, bubble, one_forward_one_backward

CASES = [(stages, count) for stages in (1, 2, 3, 4, 7) for count in (0, 1, 2, 3, 5, 8, 20)]


def schedules(stages: int, count: int) -> list[list[Operation]]:
    return [
        list(one_forward_one_backward(stage, stages=stages, micro_batches=count))
        for stage in range(stages)
    ]


@pytest.mark.parametrize(("stages", "count"), CASES)
def test_every_pass_once_and_in_order(stages: int, count: int) -> None:
    for operations in schedules(stages, count):
        for kind in ("forward", "backward"):
            seen = [one.micro_batch for one in operations if one.kind == kind]
            assert seen == list(range(count))


@pytest.mark.parametrize(("stages", "count"), CASES)
def test_few_activations_are_alive(stages: int, count: int) -> None:
    for stage, operations in enumerate(schedules(stages, count)):
        alive = most = 0
        for operation in operations:
            alive += 1 if operation.kind == "forward" else -1
            most = max(most, alive)
        assert alive == 0
        assert most == min(stages - stage, count)


def ready(
    operation: Operation, stage: int, *, stages: int, done: set[tuple[int, Operation]]
) -> bool:
    """Whether the neighbour that a pass waits for has done its part."""
    if operation.kind == "forward":
        return stage == 0 or (stage - 1, operation) in done
    if stage == stages - 1:
        return (stage, Operation("forward", operation.micro_batch)) in done
    return (stage + 1, operation) in done


@pytest.mark.parametrize(("stages", "count"), CASES)
def test_no_deadlock(stages: int, count: int) -> None:
    waiting = schedules(stages, count)
    done: set[tuple[int, Operation]] = set()
    rounds = 0
    while any(waiting):
        able = [
            stage
            for stage, operations in enumerate(waiting)
            if operations and ready(operations[0], stage, stages=stages, done=done)
        ]
        assert able, "every stage waits for another"
        done |= {(stage, waiting[stage].pop(0)) for stage in able}
        rounds += 1
    if count:  # in step, and with passes that take the same, the bubble is what theory says
        busy = 2 * count / rounds
        assert busy == pytest.approx(1 - bubble(stages=stages, micro_batches=count))
