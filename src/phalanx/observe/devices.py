"""The devices that a comparison may train on, and whether they are here."""

import torch

from phalanx.observe.plan import CPU
from phalanx.wording import unknown

_CUDA = "cuda"


def missing_device(device: str) -> str | None:
    """Why there is no training on a device here, or None if there is."""
    if device not in (CPU, _CUDA):
        raise unknown("device", device, known=(CPU, _CUDA))
    return None if device == CPU or torch.cuda.is_available() else "no such device here"
