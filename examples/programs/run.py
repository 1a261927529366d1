"""Train all six programs in both ways, and say what differs: `python -m examples.programs.run`, or
`phalanx run --ranks 2 -- python -m examples.programs.run`."""

import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torch import Tensor, nn

import phalanx
from examples.programs import (
    autoencoder,
    padded_sequences,
    regression,
    small_gpt,
    two_towers,
    weighted_images,
)

PROGRAMS: dict[str, ModuleType] = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        regression,
        weighted_images,
        padded_sequences,
        small_gpt,
        two_towers,
        autoencoder,
    )
}


def lines_of(function: Callable[..., Any]) -> int:
    """The lines of a function that do something, without its first and empty ones."""
    return sum(1 for line in inspect.getsource(function).splitlines()[1:] if line.strip())


def weights_of(model: nn.Module) -> list[Tensor]:
    """Copies of all parameters."""
    return [parameter.detach().clone() for parameter in model.parameters()]


def difference(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """The largest between two weights."""
    pairs = zip(ours, theirs, strict=True)
    return max(float((one - other).abs().max()) for one, other in pairs)


def main(strategy: str | None = None) -> None:
    rank = phalanx.world().rank
    if rank == 0:
        print("program           lines plain  ours  largest difference")
    for name, program in PROGRAMS.items():
        plain, ours = program.make_model(), program.make_model()
        program.plain(plain)
        program.ours(ours, strategy=strategy)
        found = difference(weights_of(ours), weights_of(plain))
        lines = f"{lines_of(program.plain):11}{lines_of(program.ours):6}"
        if rank == 0:
            print(f"{name:18}{lines}{found:20.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
