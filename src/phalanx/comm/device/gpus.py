"""Which GPU is whose. A GPU is known by its UUID: its number depends on what a rank may see."""

import torch

from phalanx.errors import UsageError


def gpu_of(device: torch.device) -> str:
    """What tells a GPU from all others, whatever number each rank knows it by."""
    properties = torch.cuda.get_device_properties(device)
    return str(properties.uuid)


def own_number(local_rank: int, visible: int, *, share: bool = True) -> int:
    """Which of the GPUs that it sees a rank takes: the only one, or one in turn.

    Who gave each rank a single GPU to see, as `srun --gpus-per-task=1` does, has chosen already.
    """
    if not share and visible > 1 and local_rank >= visible:
        raise UsageError(
            f"local rank {local_rank} has no GPU of its own: this host has {visible}; start at "
            "most as many ranks on it"
        )
    return local_rank % visible


def sharing(gpus: list[str]) -> str | None:
    """Which ranks have the same GPU, if any do; `gpus` has each rank's."""
    for first, gpu in enumerate(gpus):
        others = [rank for rank, other in enumerate(gpus) if other == gpu]
        if len(others) > 1:
            return f"ranks {first} and {others[1]} have the same GPU"
    return None
