"""Answers as a NumPy archive: arrays alone, nothing pickled.

`numpy.savez` would hold every array in memory, and write the time of day into the file.
"""

import math
import zipfile
from collections.abc import Iterable
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from phalanx.data.arrays import Array
from phalanx.inference.answers import Answers, Block

#: The earliest that an archive can tell.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def write(answers: Answers, file: BinaryIO) -> None:
    """Write `id`, what `arrays` of this kind there are, such as `answer`, the labels if they are
    known, `outputs`, and the names of what they are about.

    Rows without an answer have empty texts, and numbers that are none.
    """
    with zipfile.ZipFile(file, "w") as archive:
        _add_whole(archive, "id", _identity(answers))
        for name, first in answers.kind.arrays(answers.outputs[:0]).items():
            parts = (
                _spread(block, answers.kind.arrays(block.outputs)[name])
                for block in answers.blocks()
            )
            _add(archive, name, like=first, rows=answers.rows, parts=parts)
        if answers.labels is not None:
            cells = answers.kind.labels(answers.labels)
            for column, values in zip(answers.kind.label_columns, cells, strict=True):
                _add_whole(archive, column.name, np.asarray(values))
        parts = (_spread(block, _plain(block.outputs)) for block in answers.blocks())
        first = _plain(answers.outputs[:0])
        _add(archive, "outputs", like=first, rows=answers.rows, parts=parts)
        for name, array in answers.kind.constants().items():
            _add_whole(archive, name, array)


def _identity(answers: Answers) -> Array:
    """What tells samples apart: the column beside them, or their numbers."""
    for values in answers.beside.values():
        return np.asarray(values, dtype=np.str_)
    return np.arange(answers.rows)


def _spread(block: Block, array: Array) -> Array:
    """The rows of samples that have an answer, among those of all."""
    if block.answered.all():
        return array
    nothing = math.nan if array.dtype.kind == "f" else np.zeros((), array.dtype)
    whole = np.full((len(block.indices), *array.shape[1:]), nothing, dtype=array.dtype)
    whole[block.answered] = array
    return whole


def _plain(outputs: Tensor) -> Array:
    """Outputs in a type that NumPy has."""
    return (outputs.float() if outputs.dtype == torch.bfloat16 else outputs).numpy()


def _add_whole(archive: zipfile.ZipFile, name: str, array: Array) -> None:
    _add(archive, name, like=array, rows=len(array), parts=[array])


def _add(
    archive: zipfile.ZipFile, name: str, *, like: Array, rows: int, parts: Iterable[Array]
) -> None:
    """Add an array with rows like these, part by part."""
    header = {
        "descr": np.lib.format.dtype_to_descr(like.dtype),
        "fortran_order": False,
        "shape": (rows, *like.shape[1:]),
    }
    with archive.open(zipfile.ZipInfo(f"{name}.npy", _NO_TIME), "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            file.write(np.ascontiguousarray(part, dtype=like.dtype).tobytes())
