"""The samples of a text: windows over its tokens, and the tokens that follow these.

All windows are views of the same memory, however much they have in common.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from phalanx.data.containers.memory import free_memory
from phalanx.data.options import BYTES, CONTEXT_LENGTH, TEST_SPLIT, TOKENS
from phalanx.data.split import Dataset, Split
from phalanx.data.tables.encoding import open_text
from phalanx.data.text.files import find
from phalanx.data.text.vocabulary import Vocabulary, vocabulary_of
from phalanx.errors import DataError, UsageError
from phalanx.files import open_file

#: Bytes for each: its number, and on the way there what was read, and its number in Unicode.
_MEMORY_PER_TOKEN = 24


def load(
    path: Path,
    *,
    tokens: str = TOKENS.default,
    context_length: int = CONTEXT_LENGTH.default,
    window_step: int | None = None,
    encoding: str | None = None,
    test_split: float = TEST_SPLIT.default,
    vocabulary: tuple[str, ...] | None = None,
) -> Dataset:
    """The text at a path; without a test part of its own, its end is to test with.

    Tokens count the characters of the whole text in their order, or those of a `vocabulary` that a
    model was trained with.
    """
    found = find(path)
    texts = [_read(files, tokens, encoding) for files in (found.train, found.test) if files]
    known = Vocabulary(vocabulary, tokens) if vocabulary else _in_common(texts)
    numbers = [torch.from_numpy(known.encode(text, where=str(path))) for text in texts]
    train, test = numbers if found.test else _parted(numbers[0], test_split)
    if len(known.names) < 2:
        raise DataError(f"{path}: holds but one character, over and over: nothing to learn")
    step = context_length if window_step is None else window_step
    splits = [_windows(part, context_length, step, where=path) for part in (train, test)]
    if train is test:
        splits[1] = splits[0]
    return Dataset("text", splits[0], splits[1], known.names)


def _read(files: Sequence[Path], tokens: str, encoding: str | None) -> str | bytes:
    """What files hold, one behind the other."""
    limit = free_memory() // _MEMORY_PER_TOKEN
    pieces: list[str | bytes] = []
    for file in files:
        try:
            with open_file(file) if tokens == BYTES else open_text(file, encoding) as opened:
                pieces.append(opened.read(limit + 1))
        except (OSError, EOFError) as error:
            raise DataError(f"{file}: cannot be read: {error}") from error
        limit -= len(pieces[-1])
        if limit < 0:
            raise DataError(f"{file}: is more text than memory is free for: take a part of it")
    return pieces[0][:0].join(pieces)  # type: ignore[arg-type]


def _in_common(texts: Sequence[str | bytes]) -> Vocabulary:
    first, *more = texts
    return vocabulary_of(first if not more or isinstance(first, bytes) else first + str(more[0]))


def _parted(tokens: Tensor, fraction: float) -> tuple[Tensor, Tensor]:
    """What to train on, and the end of the text to test with; all for both without a fraction."""
    if fraction == 0:
        return tokens, tokens
    kept = len(tokens) - round(len(tokens) * fraction)
    return tokens[:kept], tokens[kept:]


def _windows(tokens: Tensor, length: int, step: int, *, where: Path) -> Split:
    if len(tokens) <= length:
        raise UsageError(
            f"{where}: {len(tokens):,} tokens to train on or to test with are too few for samples "
            f"of {length} and the one that follows: take a smaller --context-length"
        )
    return Split(tokens[:-1].unfold(0, length, step), tokens[1:].unfold(0, length, step))
