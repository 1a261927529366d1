"""What losses are multiplied by where passes compute in float16, whose smallest number is 6e-8.

Gradients below that would be 0. So a loss is scaled before its backward pass, and gradients are
scaled back in the weights' own type. A scale that is too large shows as a gradient that is not
finite: that step is left out, on all ranks, and the scale halved. After many steps without it is
doubled again. As torch.amp.GradScaler has it, but over ranks, and a part of a training's state.

Scales are powers of 2, which change no bit of a gradient that float16 holds.
"""

import logging
from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from phalanx.comm.base import Communicator

log = logging.getLogger("phalanx.train")

#: As torch.amp.GradScaler begins, and so many steps until it tries a larger one.
_FIRST = 2.0**16
_PATIENCE = 2000
#: Beyond these there is nothing to gain: float32 itself has no more range.
_LEAST, _MOST = 2.0**-24, 2.0**100


@final
class LossScale:
    """The scale of one training, the same on all ranks."""

    def __init__(self) -> None:
        self.value = _FIRST
        #: Steps with finite gradients since it was changed.
        self.steps = 0

    def unscale(self, gradients: Sequence[Tensor], comm: Communicator | None = None) -> bool:
        """Collective, with a communicator. Scale gradients back; whether to step with them.

        Give it the communicator where this rank has a part of the summed gradient alone. On a GPU
        it waits, once, as any training in float16 does: whether to step is the host's to know.
        """
        there = [one.coalesce()._values() if one.is_sparse else one for one in gradients]
        there = [one for one in there if one.numel()]
        finite = True
        if there:
            norms = torch._foreach_norm(there, float("inf"))
            finite = bool(
                torch.stack([one.to(norms[0].device, torch.float64) for one in norms])
                .isfinite()
                .all()
            )
        if comm is not None and comm.size > 1:
            everyone = torch.tensor([finite], dtype=torch.uint8)
            comm.allreduce(everyone, "minimum")
            finite = bool(everyone[0])
        if finite:
            torch._foreach_mul_(list(gradients), 1.0 / self.value)
        self._learn(finite=finite)
        return finite

    def _learn(self, *, finite: bool) -> None:
        self.steps = self.steps + 1 if finite else 0
        if not finite:
            self.value = max(_LEAST, self.value / 2)
            log.info("a gradient is not finite: no step, and losses are scaled by %g", self.value)
        elif self.steps == _PATIENCE:
            self.value, self.steps = min(_MOST, self.value * 2), 0

    def state(self) -> dict[str, Any]:
        """As a training's state has it."""
        return {"value": self.value, "steps": self.steps}

    def load(self, state: dict[str, Any] | None) -> None:
        """Go on from there; a training that had none begins."""
        known = {"value": _FIRST, "steps": 0} if state is None else state
        self.value, self.steps = float(known["value"]), int(known["steps"])
