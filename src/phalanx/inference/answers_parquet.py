"""Answers as Parquet, by pyarrow: texts are strings, numbers float64, what is missing is null."""

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from phalanx.data.arrays import Array
from phalanx.inference.answer_kinds import Cells, Column
from phalanx.inference.answers import INDEX, Answers, Block


def write(answers: Answers, file: BinaryIO) -> None:
    """Write a table with the columns of the answers, a group of rows at a time."""
    schema = pa.schema([(column.name, _type(column)) for column in answers.columns])
    with pq.ParquetWriter(file, schema) as writer:
        for block in answers.blocks():
            columns = zip(_arrays(answers, block), schema, strict=True)
            cells = [one.cast(field.type) for one, field in columns]
            writer.write_batch(pa.record_batch(cells, schema=schema))


def _type(column: Column) -> Any:
    if column.name == INDEX and column.kind == "number":
        return pa.int64()
    return pa.string() if column.kind == "text" else pa.float64()


def _arrays(answers: Answers, block: Block) -> Iterator[Any]:
    """The cells of all columns, in their order."""
    if INDEX not in answers.beside:
        yield pa.array(block.indices)
    yield from map(pa.array, block.beside)
    lead = len(answers.kind.answer_columns)
    yield from (_answered(block, cells) for cells in block.cells[:lead])
    yield from map(_known, block.labels)
    yield from (_answered(block, cells) for cells in block.cells[lead:])


def _known(cells: Cells) -> Any:
    """What is said of samples, and nothing of those of which nothing is."""
    if isinstance(cells, np.ndarray):
        return pa.array(cells, mask=np.isnan(cells))
    return pa.array([value or None for value in cells], pa.string())


def _answered(block: Block, cells: Cells) -> Any:
    """The cells of samples that have an answer, among those of all."""
    if isinstance(cells, np.ndarray):
        whole: Array = np.zeros(len(block.indices))
        whole[block.answered] = cells
        return pa.array(whole, mask=~block.answered)
    texts = iter(cells)
    return pa.array([next(texts) if one else None for one in block.answered], pa.string())
