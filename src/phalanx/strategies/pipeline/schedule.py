"""What a stage of a pipeline does in which order: one forward, one backward (1F1B), as pure data.

A stage first computes as many forward passes as there are stages behind it, and from then on a
backward pass after every forward pass. The activations of a micro-batch are kept from its forward
to its backward pass, so that a stage never keeps more of them than there are stages from it on,
whatever the number of micro-batches.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal


@dataclass(frozen=True)
class Operation:
    """One pass of one micro-batch through a stage."""

    kind: Literal["forward", "backward"]
    micro_batch: int


@cache
def one_forward_one_backward(
    stage: int, *, stages: int, micro_batches: int
) -> tuple[Operation, ...]:
    """The passes of a stage. Both kinds run in the order of the micro-batches."""
    ahead = min(stages - stage - 1, micro_batches)
    operations = [Operation("forward", index) for index in range(ahead)]
    for index in range(ahead, micro_batches):
        operations.append(Operation("forward", index))
        operations.append(Operation("backward", index - ahead))
    for index in range(micro_batches - ahead, micro_batches):
        operations.append(Operation("backward", index))
    return tuple(operations)


def bubble(*, stages: int, micro_batches: int) -> float:
    """The share of its time that a stage idles if all stages take the same, and messages none."""
    return (stages - 1) / (micro_batches + stages - 1)
