"""How many GPUs a process would see, by what the system says: torch is not asked, nor loaded."""

import os
from pathlib import Path

#: What limits them: by CUDA, by HIP and by ROCm.
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_NVIDIA = Path("/proc/driver/nvidia/gpus")
_AMD = Path("/sys/class/kfd/kfd/topology/nodes")


def visible_gpus() -> int:
    """Those that the environment names, or else all of this host."""
    named = [os.environ[name] for name in _VARIABLES if name in os.environ]
    if named:
        return min(map(_count, named))
    if _NVIDIA.is_dir():
        return len(list(_NVIDIA.iterdir()))
    return sum(_has_gpu(node) for node in _AMD.glob("*/gpu_id"))


def _count(names: str) -> int:
    """As CUDA reads it: what is no GPU ends the list."""
    count = 0
    for name in names.split(","):
        if not name.strip() or name.strip().startswith(("-", "No")):
            break
        count += 1
    return count


def _has_gpu(node: Path) -> bool:
    try:
        return int(node.read_text()) != 0  # processors have 0
    except (OSError, ValueError):
        return False
