"""Whether a MATLAB file can be read at all. Without torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phalanx.data.location import only_file
from phalanx.data.packages import need


def find(path: Path) -> Path:
    """The one .mat file at a path."""
    return only_file("mat", path, suffixes=(".mat",))


def check(path: Path, options: Mapping[str, Any]) -> None:
    """Raise for a missing file, and for a missing package to read it with."""
    find(path)
    need("scipy", for_what="MATLAB files", called="scipy")
