"""Models that this machine has no memory for are refused before any is taken."""

import os
from collections.abc import Callable

import torch
from torch import nn

from phalanx.errors import UsageError
from phalanx.wording import byte_size


def build_sized(name: str, build: Callable[[], nn.Module]) -> nn.Module:
    """The model, whose weights fit in this machine's memory; found out without any."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        with torch.device("meta"):
            outline = build()
    except RuntimeError as error:  # a size that no machine can even count
        raise UsageError(f"model {name}: its layers are too large: {_line(error)}") from error
    size = sum(one.nbytes for one in (*outline.parameters(), *outline.buffers()))
    if size > memory:
        raise UsageError(
            f"model {name}: its weights alone take {byte_size(size)}, and this machine has "
            f"{byte_size(memory)} of memory: choose smaller layers"
        )
    return build()


def _line(error: RuntimeError) -> str:
    return str(error).splitlines()[0]
