"""The order of work on GPUs between the thread that asks for an operation and the one that does it.

Each thread has a stream of its own there. What the caller's stream has under way when it asks must
be done before its tensors are read, and results must be there before the caller is told.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

#: A device, and an event that comes when what was under way there is done.
Mark = tuple[torch.device, Any]


def mark(tensors: Sequence[Tensor]) -> list[Mark]:
    """Remember what is under way on the GPUs that these tensors are on, in the caller's streams."""
    marks = []
    for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(device))
        marks.append((device, event))
    return marks


def wait_for(marks: Sequence[Mark]) -> None:
    """Have this thread's streams wait for it."""
    for device, event in marks:
        torch.cuda.current_stream(device).wait_event(event)


def settle(marks: Sequence[Mark]) -> None:
    """Wait until this thread's own work on the same GPUs is done."""
    for device, _ in marks:
        torch.cuda.current_stream(device).synchronize()
