"""Matrices of numbers in a MATLAB file: looked at first, then read by scipy. Without torch."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from phalanx.data.containers.mat_header import variables
from phalanx.data.containers.memory import check_memory
from phalanx.data.packages import need
from phalanx.errors import DataError
from phalanx.files import open_file


def matrix_names(path: Path) -> list[str]:
    """What the variables of a file are called."""
    with _opened(path) as file:
        return [one.name for one in variables(file)]


def read_matrices(path: Path, wanted: Callable[[str], bool]) -> "dict[str, np.ndarray[Any, Any]]":
    """The matrices whose names are wanted, as many as there are."""
    need("scipy", for_what="MATLAB files", called="scipy")
    import scipy.io

    with _opened(path) as file:
        found = [one for one in variables(file) if wanted(one.name)]
        for name, times in Counter(one.name for one in found).items():
            if times > 1:
                raise DataError(f"{path}: holds {name} {times} times")
        for one in found:
            if one.obstacle:
                raise DataError(
                    f"{path}: {one.name} is not a full matrix of numbers: it is {one.obstacle}"
                )
        check_memory(sum(one.bytes for one in found), where=str(path))
        if not found:
            return {}
        file.seek(0)
        names = [one.name for one in found]
        content: dict[str, Any] = scipy.io.loadmat(file, variable_names=names)
        if not all(isinstance(content.get(name), np.ndarray) for name in names):
            raise DataError(f"{path}: {', '.join(names)} must be full matrices")
        return {name: content[name] for name in names}


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    try:
        with open_file(path) as file:
            yield file
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # a damaged file can fail in any way
        raise DataError(f"{path}: not a readable MATLAB file: {error}") from error
