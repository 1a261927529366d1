"""Image files as a source of samples: decoded when they are needed, by several threads at once."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import final

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from phalanx.data.arrays import Array
from phalanx.data.source import Source
from phalanx.errors import DataError

#: Larger images are refused: a small file can hold a picture that no memory holds.
MOST_PIXELS = 64_000_000
_MOST_THREADS = 8


@final
class ImageFiles(Source):
    """Images as bytes [3, height, width], whatever their size and colours in the files.

    Those that a rank decoded are kept, up to `keep` of them, so that they are decoded once.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        size: tuple[int, int],
        keep: int = 0,
        skips_unreadable: bool = False,
    ) -> None:
        self.shape = (3, *size)
        self.skips_unreadable = skips_unreadable
        self._paths = paths
        self._size = size
        keep = min(keep, len(paths))
        # Memory that is not written to yet costs nothing.
        self._kept = torch.empty((keep, *self.shape), dtype=torch.uint8)
        self._is_kept = [False] * keep

    def __len__(self) -> int:
        return len(self._paths)

    def take(self, indices: Tensor) -> Tensor:
        taken = torch.empty((len(indices), *self.shape), dtype=torch.uint8)
        list(_threads().map(self._put, indices.tolist(), taken))  # in a list, errors are raised
        return taken

    def unreadable(self, indices: Tensor) -> dict[int, str]:
        wanted = indices.tolist()
        causes = _threads().map(self._cause, wanted)
        return {index: cause for index, cause in zip(wanted, causes, strict=True) if cause}

    def _put(self, index: int, place: Tensor) -> None:
        if index >= len(self._is_kept):
            place.copy_(torch.from_numpy(decode(self._paths[index], self._size)))
            return
        if not self._is_kept[index]:
            self._kept[index] = torch.from_numpy(decode(self._paths[index], self._size))
            self._is_kept[index] = True
        place.copy_(self._kept[index])

    def _cause(self, index: int) -> str | None:
        try:
            self._put(index, torch.empty(self.shape, dtype=torch.uint8))
        except DataError as error:
            return str(error)
        return None


def decode(path: str, size: tuple[int, int]) -> Array:
    """An image as bytes [3, height, width]; a DataError that names the file if it is damaged."""
    height, width = size
    try:
        with Image.open(path) as image:
            pixels = image.width * image.height
            if pixels > MOST_PIXELS:
                raise DataError(f"{image.width}×{image.height} pixels; {_LIMIT}")
            image.draft("RGB", (width, height))  # a large JPEG is made smaller while it is decoded
            resized = _in_colour(image).resize((width, height), Image.Resampling.BILINEAR)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(f"{path}: {_LIMIT}: {error}") from error
    except Exception as error:  # a damaged file can fail in any way
        raise DataError(f"{path}: not an image that can be read: {error}") from error
    return np.ascontiguousarray(np.asarray(resized).transpose(2, 0, 1))


def _in_colour(image: Image.Image) -> Image.Image:
    if image.mode[0] in "IF":
        image = Image.fromarray(_grey_bytes(image))
    if "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


def _grey_bytes(image: Image.Image) -> Array:
    """Large or fractional numbers as bytes; Pillow would cut them off at 255."""
    values = np.asarray(image)
    if image.mode == "F":
        _check_range(values, most=1, kind="fractions")
        return (values * 255 + 0.5).astype(np.uint8)
    if image.mode == "I" and image.format not in _SIXTEEN_BITS:
        raise DataError("whole numbers of 32 bits, whose white is not known: save it in 8 or 16")
    _check_range(values, most=65535, kind="16 bits")
    return (values >> 8).astype(np.uint8)


def _check_range(values: Array, *, most: int, kind: str) -> None:
    least, largest = values.min(), values.max()
    if not (least >= 0 and largest <= most):  # which is so of a NaN, too
        raise DataError(
            f"values from {least} to {largest}, where {kind} are from 0 to {most}: scale them, or "
            "save it in 8 bits"
        )


# The files that have no more where Pillow gives 32 bits.
_SIXTEEN_BITS = ("PPM", "PNG")
_LIMIT = f"at most {MOST_PIXELS:,} are decoded"


@cache
def _threads() -> ThreadPoolExecutor:
    """As many as this rank has cores, and two at least: one decodes while another reads."""
    cores = len(os.sched_getaffinity(0))
    return ThreadPoolExecutor(min(max(cores, 2), _MOST_THREADS), thread_name_prefix="decode")
