"""How much memory can still be had: of the host, and of the groups that limit this process.

A container, a Slurm job and a systemd service are control groups, each inside of others, and every
one of them may have a limit. Files that were read count as used there until the kernel needs the
room, which it then takes: that part is free all the same, as it is in the host's MemAvailable.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_UNLIMITED = 1 << 62


class _Names(NamedTuple):
    """What a version of control groups calls its files, and what the kernel can take back."""

    limit: str
    used: str
    reclaimable: tuple[str, ...]


_SECOND = _Names(
    "memory.max", "memory.current", ("active_file", "inactive_file", "slab_reclaimable")
)
_FIRST = _Names(
    "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file")
)


def free_memory(*, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """The bytes that this host, and the groups that this process is in, have left."""
    free = _number(r"MemAvailable:\s+(\d+) kB", _text(proc / "meminfo"))
    rooms = [_UNLIMITED if free is None else free << 10]
    for folder, names in _groups(_text(proc / "self/cgroup"), groups):
        rooms.append(_room(folder, names))
    return min(rooms)


def _groups(membership: str, root: Path) -> Iterator[tuple[Path, _Names]]:
    """The groups that this process is in, from the innermost on, and their files' names."""
    for line in membership.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            top, names = root, _SECOND
        elif "memory" in controllers.split(","):
            top, names = root / "memory", _FIRST
        else:
            continue
        # In a container the path may be the host's, and its files lie at the top.
        folder = top / path.lstrip("/")
        for one in (folder, *folder.parents):
            yield one, names
            if one == top:
                break


def _room(folder: Path, names: _Names) -> int:
    """What a group has left; it may have no limit, or not be visible here."""
    limit, used = (_number(r"(\d+)", _text(folder / name)) for name in (names.limit, names.used))
    if limit is None or used is None:
        return _UNLIMITED
    statistics = _text(folder / "memory.stat")
    parts = [_number(rf"^{name} (\d+)", statistics) or 0 for name in names.reclaimable]
    return limit - used + sum(parts)


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text, re.MULTILINE)
    return int(found.group(1)) if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # another kind of system, or a kernel without it
        return ""
