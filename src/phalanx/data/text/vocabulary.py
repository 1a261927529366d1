"""Characters or bytes as tokens: numbers from 0, and back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from phalanx.data.arrays import Array
from phalanx.data.options import BYTES, CHARACTERS
from phalanx.errors import DataError

#: What bytes are called, as many as there are.
BYTE_NAMES = tuple(f"{value:02x}" for value in range(256))
_TOLD = 10


@final
@dataclass(frozen=True)
class Vocabulary:
    """What each token is called: a character, or the two digits of a byte."""

    names: tuple[str, ...]
    level: str = CHARACTERS

    def encode(self, text: str | bytes, *, where: str) -> Array:
        """The tokens of a text; characters that are none are refused."""
        if isinstance(text, bytes) or self.level == BYTES:
            raw = text.encode() if isinstance(text, str) else text
            return np.frombuffer(raw, dtype=np.uint8).astype(np.int64)
        points, known = _points(text), _points("".join(self.names))
        order = np.argsort(known)
        places = np.searchsorted(known, points, sorter=order).clip(max=len(known) - 1)
        tokens: Array = order[places].astype(np.int64)
        strangers = np.unique(points[known[tokens] != points])
        if len(strangers):
            shown = ", ".join(repr(chr(one)) for one in strangers[:_TOLD])
            more = f" and {len(strangers) - _TOLD} more" if len(strangers) > _TOLD else ""
            raise DataError(
                f"{where}: holds {shown}{more}, which the text that the model was trained on does "
                "not: leave it out, or train with --tokens bytes, which takes any text"
            )
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of some tokens; bytes that are no UTF-8 are marked."""
        if self.level == BYTES:
            return bytes(tokens).decode(errors="replace")
        return "".join(self.names[token] for token in tokens)


def vocabulary_of(text: str | bytes) -> Vocabulary:
    """All characters of a text in their order in Unicode; of bytes, all that there are."""
    if isinstance(text, bytes):
        return Vocabulary(BYTE_NAMES, BYTES)
    return Vocabulary(tuple(map(chr, np.unique(_points(text)))))


def _points(text: str) -> Array:
    """The numbers of characters in Unicode; half of a pair is one, too."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
